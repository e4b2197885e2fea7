// The state machine of boundaries: which actions are requested of a running job (by users, finish
// conditions, or the host that moves it), and when each is performed. It knows requests, step
// numbers and the current mode, but not messages, reports, weights or time.
//
// A request sets a boundary: training runs up to one step, the same for all workers. There the
// actions are performed in this order; after each, next() starts again at the top:
//
//   flush (if needed) -> evaluate -> [at the end: observe -> collect -> evaluate the collected
//   weights -> write] -> checkpoint -> best weights -> switch the mode -> hand over -> pause ->
//   continue
//
// In lockstep modes evaluation is a boundary too. In the others it runs in parallel with training,
// and only the end of the job waits for it.
//
//   running --flush--> flushing --all shards have answered--> running
//   running --adopt--> switching --all workers have answered--> running
//   running --collect--> collecting --blocks joined--> running
//   collecting --joined, final, not evaluated--> evaluating_last --round complete--> write
//
// Invariants:
//   * next() returns each action once, and marks it as begun;
//   * an answer has no effect in a state that does not wait for it;
//   * a flush at the same step comes before a mode switch, and out of lockstep before a collection
//     for a checkpoint, a handover or the last step.
// Errors: none. Threads: a value.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "runtime/coordinator/mode_facts.hpp"
#include "runtime/messages/ids.hpp"

namespace troupe {

class boundary {
 public:
  enum class state { running, flushing, collecting, switching, evaluating_last };
  enum class todo {
    wait,           // for an answer
    train,          // grant steps up to end()
    flush,          // send flush to all workers
    evaluate,       // begin a round
    observe,        // request staleness counts
    collect,        // request all blocks, for the purpose why()
    adopt,          // all roles adopt mode()
    say_paused,     // report the pause: no other action is due
    leave,          // no action is due: continue training
    write_weights,  // write the weights and end the job
  };
  enum class purpose { checkpoint, last, handover, best };

  // Constants of the job.
  struct rules {
    std::uint64_t first_step = 0, last_step = 0;  // train until last_step; 0: no limit
    std::uint64_t eval_every = 0;                 // steps; 0: only at the end
    std::uint64_t checkpoint_every = 0;           // steps; 0: only on request
    bool has_tests = false, has_tester = false;
    bool any_worker_ends = false;  // the first worker to finish its steps ends the job (not in lockstep)
    bool drains = true;            // weight rule drain: at a step boundary all weights are up to date
    bool owes = false;             // the previous plan did not make the evaluation at first_step
  };
  // The current state of the job, from the other objects of the coordinator.
  struct facts {
    std::uint64_t completed = 0, granted = 0;  // steps complete for all workers; the largest grant of a worker
    std::uint64_t max_done = 0;                // steps of the fastest worker
    bool evaluating = false;                   // a round is in progress
    bool evaluated = false;                    // the last round was at step `completed`
    bool weights_evaluated = false;            // the last round used the weights of step `completed`
    bool evaluation_due = false;               // by the interval, at the job's progress
    std::uint64_t next_evaluation = 0;         // in lockstep: the step of the next one by the interval
    bool observing = false, observed = false;
  };

  boundary(rules r, mode_facts m) : rules_(r), mode_(std::move(m)), kept_at_(r.first_step) {}

  // --- requests. `at`: no step beyond this one is granted (granted steps are finished)
  void want_pause(std::uint64_t at);
  void was_paused(std::uint64_t at);  // the previous plan was paused
  bool resume();                      // returns true if the job was paused
  void want_stop(std::uint64_t at);   // by a user: stores a checkpoint, does not evaluate
  void want_end();                    // by a finish condition
  void want_checkpoint(std::uint64_t at);
  void want_evaluation(std::uint64_t at);
  void want_handover(std::uint64_t at);
  // The weights of this boundary have had the best evaluation: collect them here, with the next
  // collection that is due here or alone.
  void want_best() { wanted_.best = true; }
  void want_mode(mode_facts m, std::uint64_t at);
  // Returns true if a mode switch is requested or in progress.
  bool changing() const { return wanted_.mode || state_ == state::switching; }
  bool handing_over() const { return wanted_.handover; }
  const std::optional<mode_facts>& wanted_mode() const { return wanted_.mode; }

  // --- the state machine
  todo next(const facts& f);
  // Steps are granted up to here.
  std::uint64_t end(const facts& f) const;
  // Record an answer. Return true if it was the last one.
  bool flushed(role_id shard, std::uint64_t round, std::size_t shards, std::uint64_t completed);
  bool adopted(role_id worker, std::uint8_t epoch, std::size_t workers);
  // The blocks are joined. Returns true if these are the final weights and must be evaluated before
  // they are written.
  bool collected(std::uint64_t completed);

  // --- state
  state now() const { return state_; }
  std::size_t answers() const { return answered_.size(); }  // received in state `flushing` or `switching`
  purpose why() const { return why_; }                      // of the last collection
  bool pausing() const { return wanted_.pause != pausing_of::none; }
  bool paused() const { return wanted_.pause == pausing_of::reached; }
  bool stopped() const { return wanted_.end == ending::stop; }  // by a user
  bool finishing() const { return wanted_.end == ending::finish; }
  bool keeping() const { return wanted_.checkpoint || (state_ == state::collecting && why_ == purpose::checkpoint); }
  bool due(std::uint64_t completed) const;  // an evaluation by the interval, in lockstep
  // False if the last evaluation begun is made only because the job ends: a longer run of the job
  // would not make it.
  bool evaluation_counts() const { return evaluation_counts_; }
  bool can_evaluate() const { return rules_.has_tests && (lockstep() || rules_.has_tester); }
  // Returns true if weights do not change while training is stopped at `completed`.
  bool at_rest(std::uint64_t completed) const { return lockstep() || flushed_at_ == completed; }
  bool lockstep() const { return mode_.lockstep; }
  const mode_facts& mode() const { return mode_; }
  std::uint32_t switches() const { return switches_; }  // of the mode, that have begun
  std::uint8_t mode_epoch() const { return static_cast<std::uint8_t>(switches_); }
  std::uint64_t epoch_began_at() const { return switched_at_; }
  std::uint64_t flush_round() const { return flush_round_; }

 private:
  enum class pausing_of { none, wanted, reached };
  enum class ending { none, finish, stop };
  struct wishes {
    ending end = ending::none;
    pausing_of pause = pausing_of::none;
    bool evaluation = false, checkpoint = false, handover = false, best = false;
    std::optional<mode_facts> mode;
    std::optional<std::uint64_t> hold;  // no grants beyond this step
  };
  bool at_last_step(const facts& f) const { return rules_.last_step > 0 && f.completed >= rules_.last_step; }
  todo beside_training(const facts& f);
  todo here(const facts& f);
  todo begin_collect(purpose why, std::uint64_t completed);
  std::uint64_t next_checkpoint() const;  // by the interval; ~0: never
  todo begin_switch(std::uint64_t completed);

  rules rules_;
  mode_facts mode_;
  state state_ = state::running;
  wishes wanted_;
  bool evaluation_counts_ = true;
  std::set<role_id> answered_;  // shards that have flushed, or workers that have adopted the mode
  purpose why_ = purpose::checkpoint;
  std::optional<std::uint64_t> flushed_at_;
  std::uint64_t kept_at_ = 0;  // the step of the last checkpoint
  std::uint64_t flush_round_ = 0, switched_at_ = 0;
  std::uint32_t switches_ = 0;
};

}  // namespace troupe
