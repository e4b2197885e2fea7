// Test fixture: a boundary, the facts of a simulated job, and the answers that it waits for.
#pragma once

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "runtime/coordinator/boundary.hpp"

namespace troupe::boundary_test {

using todo = boundary::todo;
using waiting = boundary::state;
using purpose = boundary::purpose;

inline mode_facts lockstep() { return {}; }
inline mode_facts ssp() { return {"ssp", {{"staleness", "3"}}, false, 0, false}; }

// A job of 100 steps that evaluates every 10, with one shard (role 1) and one worker (role 2).
inline boundary::rules hundred_steps() {
  boundary::rules r;
  r.last_step = 100;
  r.eval_every = 10;
  r.has_tests = r.has_tester = true;
  return r;
}

struct job {
  boundary b;
  boundary::facts f;
  bool evaluates_last = false;  // what the last collection returned
  explicit job(mode_facts m = lockstep(), boundary::rules r = hundred_steps()) : b(r, std::move(m)) {
    f.next_evaluation = 10;
    at(0);
  }
  // All workers have finished `step` steps, and are granted no more.
  job& at(std::uint64_t step) {
    f.completed = f.granted = f.max_done = step;
    return *this;
  }
  todo next() { return b.next(f); }
  std::uint64_t end() const { return b.end(f); }
  void flush() { EXPECT_TRUE(b.flushed(role_id{1}, b.flush_round(), 1, f.completed)); }
  void adopt() { EXPECT_TRUE(b.adopted(role_id{2}, b.mode_epoch(), 1)); }
  // A round of the current weights begins and ends.
  void evaluate() {
    f.evaluating = true;
    EXPECT_EQ(next(), todo::wait);
    f.evaluating = false;
    f.evaluated = f.weights_evaluated = true;
  }
  // Performs all actions that are due, with immediate answers, and returns them.
  std::vector<todo> all() {
    std::vector<todo> list;
    for (auto t = next(); t != todo::wait && t != todo::train && list.size() < 20; t = next()) {
      list.push_back(t);
      if (t == todo::flush) flush();
      if (t == todo::evaluate) evaluate();
      if (t == todo::observe) f.observed = true;
      if (t == todo::collect) evaluates_last = b.collected(f.completed);
      if (t == todo::adopt) adopt();
      if (t == todo::leave || t == todo::write_weights) break;
      if (t == todo::collect && b.why() != purpose::checkpoint)
        break;  // for the last and a handover, the coordinator ends the plan
    }
    return list;
  }
};

}  // namespace troupe::boundary_test
