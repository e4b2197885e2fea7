// Runs a job in a fleet and checks the invariants that hold under all faults.
#pragma once

#include <gtest/gtest.h>

#include "tests/recovery/jobs.hpp"

namespace troupe::recovery {

constexpr auto longest = std::chrono::hours(1);  // virtual time; these jobs take seconds

struct outcome {
  std::string wrong;  // empty: all invariants held
  std::string kind, text, sha;
  std::size_t recovered = 0, moved = 0;
  std::vector<std::uint64_t> recovered_at;  // steps at which recoveries resumed
  std::uint64_t points = 0, old = 0, events = 0;
  time_point took{};
  std::vector<double> weights;
};

inline std::string tail_of(const std::vector<std::string>& log, std::size_t most) {
  std::string text;
  for (std::size_t i = log.size() > most ? log.size() - most : 0; i < log.size(); ++i) text += "\n  " + log[i];
  return text;
}

// Runs the fleet until its job ends. `prepare` schedules the faults; `look` is called at the end.
inline outcome run_fleet(const fleet_config& c, const std::function<void(fleet&)>& prepare = {},
                         const std::function<void(const fleet&)>& look = {}) {
  fleet f(c, testing::shared_mode_tables());
  if (prepare) prepare(f);
  const bool ended = f.run(longest);
  if (look) look(f);
  outcome o;
  if (!ended) o.wrong = "the job has not ended: " + f.waits();
  if (!f.violations().empty()) o.wrong = f.violations().front();
  const auto* last = f.last();
  if (ended && !last && !f.forgotten()) o.wrong = "no last event";
  if (last) o.kind = last->kind, o.text = last->text;
  if (last && last->kind == "error" && last->text.empty()) o.wrong = "an error without text";
  o.sha = f.text("weights_sha256");
  if (last && last->kind == "done") o.weights = f.weights();
  o.recovered = f.count("recovered");
  for (const auto& e : f.events())
    if (e.kind == "recovered") o.recovered_at.push_back(e.step);
  o.moved = f.count("moved");
  o.points = f.points();
  o.old = f.old_messages();
  o.events = f.when().events();
  o.took = last ? last->when - f.submitted_at() : f.when().now();
  if (last && last->kind == "done" && last->text != "stopped" && o.sha.empty()) o.wrong = "done without weights";
  if (!o.wrong.empty()) o.wrong += "\n" + c.job + tail_of(f.log(), 60);
  return o;
}

}  // namespace troupe::recovery
