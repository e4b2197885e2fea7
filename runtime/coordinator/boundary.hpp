// What is wanted of a job that runs (by a person, by its conditions, by the host that moves it),
// and what is done of it when: the state machine of boundaries. Knows wishes, steps as numbers, and
// the mode in use; never roles' messages, reports, weights or time.
//
// A wish sets a boundary: training runs up to one step, the same for all workers. There, one thing
// after the other, and each again looked at from the top when it is over:
//
//   settle (where it is needed) -> evaluate -> [last: observe -> collect, evaluate what was collected, write] -> checkpoint -> switch the
//   mode -> hand over -> pause -> go on
//
// In lockstep modes evaluation is a boundary too; in the others it is begun beside training, and
// nobody waits for it but the end.
//
//   running --settle--> settling --all shards--> running        running --adopt--> switching --all workers--> running
//   running --collect--> collecting --joined--> running, or, of the last: judging --the round is over--> write
//
// Invariants: next() says a thing once, and has begun it; what it is told in a state that does not
// wait for it changes nothing; a mode is adopted, and blocks of modes out of lockstep are collected
// for a checkpoint, a handover or at the last step, after settling at that very step. Errors: none.
// Threads: a value.
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
    wait,           // for somebody's word
    train,          // grant steps up to end()
    flush,          // ask all workers
    evaluate,       // begin a round
    observe,        // count how stale weights were
    collect,        // ask for all blocks: why()
    adopt,          // tell all to take mode()
    say_paused,     // nothing else is to be done here
    leave,          // nothing is to be done here any more
    write_weights,  // and end
  };
  enum class purpose { checkpoint, last, handover };

  // Of the job: what does not change.
  struct rules {
    std::uint64_t first_step = 0, last_step = 0;  // train until last_step; 0: no limit
    std::uint64_t eval_every = 0;                 // steps; 0: only at the end
    std::uint64_t checkpoint_every = 0;           // steps; 0: only when somebody wants one
    bool has_tests = false, has_tester = false;
    bool any_worker_ends = false;  // the first worker to make its steps ends the job (modes out of lockstep)
    bool drains = true;            // at a step boundary no weights are behind
    bool owes = false;             // an evaluation at first_step: the plan before has not come to it
  };
  // Of this moment, as others know it.
  struct facts {
    std::uint64_t completed = 0, granted = 0;  // steps: of all workers; the most of any
    std::uint64_t most_done = 0;               // steps of the fastest worker
    bool evaluating = false;                   // a round is under way
    bool evaluated = false;                    // the last one was at `completed`
    bool weights_evaluated = false;            // and of the weights of `completed`
    bool evaluation_due = false;               // by its interval, at the job's progress
    std::uint64_t next_evaluation = 0;         // in lockstep: the step of the next by its interval
    bool sums_lost = false;                    // a worker was lost in this step, and its portions are not all done again
    bool observing = false, observed = false;
  };

  boundary(rules r, mode_facts m) : rules_(r), mode_(std::move(m)), kept_at_(r.first_step) {}

  // --- wishes. `at`: no step beyond this one is granted (all that have been are made)
  void want_pause(std::uint64_t at);
  void was_paused(std::uint64_t at);  // in the plan before
  bool resume();                      // true: it was paused
  void want_stop(std::uint64_t at);   // by a person: no evaluation, what was trained is kept
  void want_end();                    // by a condition
  void want_checkpoint(std::uint64_t at);
  void want_evaluation(std::uint64_t at);
  void want_handover(std::uint64_t at);
  void want_mode(mode_facts m, std::uint64_t at);
  // The mode is about to be another.
  bool changing() const { return wanted_.mode || state_ == state::switching; }
  bool handing_over() const { return wanted_.handover; }
  const std::optional<mode_facts>& wanted_mode() const { return wanted_.mode; }

  // --- the state machine
  todo next(const facts& f);
  // Steps are granted up to here.
  std::uint64_t end(const facts& f) const;
  // True: all have said so, at `completed`.
  bool flushed(role_id shard, std::uint64_t round, std::size_t shards, std::uint64_t completed);
  bool adopted(role_id worker, std::uint8_t mode_epoch, std::size_t workers);
  // The blocks are together. True: these are the last, and they are evaluated before they are
  // written.
  bool collected(std::uint64_t completed);

  // --- what is so
  state now() const { return state_; }
  std::size_t answers() const { return answered_.size(); }  // of whom `flushing` and `switching` wait for
  purpose why() const { return why_; }                      // of the last collection
  bool pausing() const { return wanted_.pause != pausing_of::none; }
  bool paused() const { return wanted_.pause == pausing_of::reached; }
  bool stopped() const { return wanted_.end == ending::stop; }  // by a person
  bool finishing() const { return wanted_.end == ending::finish; }
  bool keeping() const { return wanted_.checkpoint || (state_ == state::collecting && why_ == purpose::checkpoint); }
  bool due(std::uint64_t completed) const;  // an evaluation by its interval, in lockstep
  bool can_evaluate() const { return rules_.has_tests && (lockstep() || rules_.has_tester); }
  // Weights do not change while training stands at `completed`.
  bool at_rest(std::uint64_t completed) const { return lockstep() || flushed_at_ == completed; }
  bool lockstep() const { return mode_.lockstep; }
  const mode_facts& mode() const { return mode_; }
  std::uint32_t mode_epoch() const { return mode_epoch_; }                               // of the mode: it grows with every switch
  std::uint8_t pending_epoch() const { return static_cast<std::uint8_t>(mode_epoch_); }  // as messages carry it
  std::uint64_t epoch_began_at() const { return switched_at_; }
  std::uint64_t flush_round() const { return flush_round_; }

 private:
  enum class pausing_of { none, wanted, reached };
  enum class ending { none, finish, stop };
  struct wishes {
    ending end = ending::none;
    pausing_of pause = pausing_of::none;
    bool evaluation = false, checkpoint = false, handover = false;
    std::optional<mode_facts> mode;
    std::optional<std::uint64_t> hold;  // no grant beyond this step
  };
  bool at_last_step(const facts& f) const { return rules_.last_step > 0 && f.completed >= rules_.last_step; }
  todo beside_training(const facts& f);
  todo here(const facts& f);
  todo begin_collect(purpose why, std::uint64_t completed);
  std::uint64_t next_checkpoint() const;  // by its interval; never: ~0
  todo begin_switch(std::uint64_t completed);

  rules rules_;
  mode_facts mode_;
  state state_ = state::running;
  wishes wanted_;
  std::set<role_id> answered_;  // shards that have settled, workers that have adopted
  purpose why_ = purpose::checkpoint;
  std::optional<std::uint64_t> flushed_at_;
  std::uint64_t kept_at_ = 0;  // the step of the last checkpoint
  std::uint64_t flush_round_ = 0, switched_at_ = 0;
  std::uint32_t mode_epoch_ = 0;
};

}  // namespace troupe
