#include "runtime/coordinator/boundary.hpp"

#include <algorithm>
#include <utility>

#include "runtime/base/invariant.hpp"

namespace troupe {

// --- requests

void boundary::want_pause(std::uint64_t at) {
  if (!paused()) wanted_.pause = pausing_of::wanted;
  wanted_.hold = at;
}

void boundary::was_paused(std::uint64_t at) {
  wanted_.pause = pausing_of::reached;
  wanted_.hold = at;
}

bool boundary::resume() {
  const bool was = paused();
  if (was) flushed_at_.reset();
  wanted_.pause = pausing_of::none;
  // Other requests keep their boundary. Otherwise they would wait for the next one, which may be
  // the end of the job.
  const bool others = wanted_.checkpoint || wanted_.handover || wanted_.mode || stopped() || (wanted_.evaluation && lockstep());
  if (!others) wanted_.hold.reset();
  return was;
}

void boundary::want_stop(std::uint64_t at) {
  wanted_.end = ending::stop;
  wanted_.pause = pausing_of::none;
  wanted_.hold = at;
}

void boundary::want_end() {
  if (!stopped()) wanted_.end = ending::finish;
}

void boundary::want_checkpoint(std::uint64_t at) {
  wanted_.checkpoint = true;
  wanted_.hold = at;
}

void boundary::want_evaluation(std::uint64_t at) {
  wanted_.evaluation = can_evaluate();
  if (lockstep()) wanted_.hold = at;
}

void boundary::want_handover(std::uint64_t at) {
  wanted_.handover = true;
  wanted_.hold = at;
}

void boundary::want_mode(mode_facts m, std::uint64_t at) {
  wanted_.mode = std::move(m);
  wanted_.hold = at;
}

// --- the state machine

std::uint64_t boundary::end(const facts& f) const {
  std::uint64_t at = rules_.last_step > 0 ? rules_.last_step : ~0ull;
  if (rules_.eval_every > 0 && rules_.has_tests && lockstep()) at = std::min(at, f.next_evaluation);
  at = std::min(at, next_checkpoint());
  if (wanted_.hold) at = std::min(at, *wanted_.hold);
  if (wanted_.end != ending::none || wanted_.best) at = std::min(at, f.granted);
  return at;
}

std::uint64_t boundary::next_checkpoint() const {
  const auto every = rules_.checkpoint_every;
  return every > 0 ? (kept_at_ / every + 1) * every : ~0ull;
}

bool boundary::due(std::uint64_t completed) const {
  return rules_.eval_every > 0 && completed % rules_.eval_every == 0 && (completed > rules_.first_step || rules_.owes);
}

boundary::todo boundary::next(const facts& f) {
  if (state_ == state::evaluating_last) return f.evaluating ? todo::wait : todo::write_weights;
  if (state_ != state::running || (lockstep() && f.evaluating)) return todo::wait;
  if (!lockstep())
    if (const auto t = beside_training(f); t != todo::train) return t;
  if (f.completed < end(f)) return todo::train;
  return here(f);
}

// Out of lockstep: actions that need no boundary. Returns `train` if there is none.
boundary::todo boundary::beside_training(const facts& f) {
  const bool one_is_done = rules_.any_worker_ends && rules_.last_step > 0 && f.max_done >= rules_.last_step;
  const bool ends_here = at_last_step(f) || (wanted_.end != ending::none && f.completed >= end(f));
  const bool last_round_comes = (one_is_done || ends_here) && !stopped();
  if (can_evaluate() && rules_.eval_every > 0 && f.evaluation_due && !f.evaluating && !last_round_comes) wanted_.evaluation = true;
  if (wanted_.evaluation && !f.evaluating) {
    wanted_.evaluation = false;
    evaluation_counts_ = true;
    return todo::evaluate;
  }
  if (!one_is_done) return todo::train;
  return f.evaluating ? todo::wait : begin_collect(purpose::last, f.completed);
}

// The next action at the boundary.
boundary::todo boundary::here(const facts& f) {
  const bool last = at_last_step(f) || wanted_.end != ending::none;
  // During training one round at this step is enough; at the end it must have used the final
  // weights.
  const bool evaluates = can_evaluate() && (wanted_.evaluation || (lockstep() && due(f.completed) && !f.evaluated) ||
                                            (last && !stopped() && !f.weights_evaluated));
  const bool keeps = wanted_.checkpoint || f.completed >= next_checkpoint();
  const bool flushes = wanted_.mode || (!lockstep() && (last || keeps || wanted_.handover));
  if (flushes && flushed_at_ != f.completed) {
    state_ = state::flushing;
    answered_.clear();
    ++flush_round_;
    return todo::flush;
  }
  if (f.evaluating) return todo::wait;
  const bool requested = std::exchange(wanted_.evaluation, false);
  if (evaluates) {
    evaluation_counts_ = requested || (lockstep() ? due(f.completed) : f.evaluation_due);
    return todo::evaluate;
  }
  const bool may_lag = !lockstep() || !rules_.drains;
  if (last && f.observing) return todo::wait;
  if (last && may_lag && !f.observed) return todo::observe;
  if (last) return begin_collect(purpose::last, f.completed);
  if (keeps) return begin_collect(purpose::checkpoint, f.completed);
  if (wanted_.best) return begin_collect(purpose::best, f.completed);
  if (wanted_.mode) return begin_switch(f.completed);
  if (wanted_.handover) return f.observing ? todo::wait : begin_collect(purpose::handover, f.completed);
  if (paused()) return todo::wait;
  if (pausing()) {
    wanted_.pause = pausing_of::reached;
    return todo::say_paused;
  }
  wanted_.hold.reset();
  flushed_at_.reset();
  return todo::leave;
}

boundary::todo boundary::begin_collect(purpose why, std::uint64_t completed) {
  invariant(state_ == state::running, "one action at a boundary at a time");
  state_ = state::collecting;
  why_ = why;
  wanted_.best = false;
  if (why == purpose::best) return todo::collect;
  wanted_.checkpoint = false;
  kept_at_ = completed;
  return todo::collect;
}

boundary::todo boundary::begin_switch(std::uint64_t completed) {
  invariant(state_ == state::running && wanted_.mode.has_value(), "a switch begins with a requested mode and no other action");
  mode_ = std::move(*std::exchange(wanted_.mode, std::nullopt));
  switched_at_ = completed;
  flushed_at_.reset();
  state_ = state::switching;
  answered_.clear();
  ++switches_;
  return todo::adopt;
}

bool boundary::flushed(role_id shard, std::uint64_t round, std::size_t shards, std::uint64_t completed) {
  if (state_ != state::flushing || round != flush_round_) return false;
  answered_.insert(shard);
  if (answered_.size() < shards) return false;
  state_ = state::running;
  flushed_at_ = completed;
  return true;
}

// If the first worker to finish ends the job, the others are still training: the collected weights
// are evaluated, because only these will be written.
bool boundary::collected(std::uint64_t completed) {
  invariant(state_ == state::collecting, "a collection ends only if one has begun");
  const bool will_evaluate = why_ == purpose::last && !at_rest(completed) && can_evaluate() && !stopped();
  if (will_evaluate) evaluation_counts_ = false;  // what the checkpoint has is stored already
  state_ = will_evaluate ? state::evaluating_last : state::running;
  return will_evaluate;
}

bool boundary::adopted(role_id worker, std::uint8_t epoch, std::size_t workers) {
  if (state_ != state::switching || epoch != mode_epoch()) return false;
  answered_.insert(worker);
  if (answered_.size() < workers) return false;
  state_ = state::running;
  return true;
}

}  // namespace troupe
