// The common part of every mode's shard sync: fills the blocks, sends the first weights, answers
// collections, and flushes.
//
// Messages in:  start, push, fetch, state (workers: their copies), collect, set_value, quiesce,
//               want_histograms (coordinator), ready{flushed} (workers), ready{copied} (replica),
//               finished, halt
// Messages out: weights or state (workers: first values, answers), state (collections; replica),
//               ready{flushed}, nonfinite_report, inventory, histogram (coordinator)
//
// Flush: the coordinator has sent `flush` to all workers. Each of them sends ready{flushed} to
// every shard of its server group, behind its last push. A shard that has received all of these,
// and has nothing in progress, sends ready{flushed} to the coordinator. Its blocks then do not
// change until the coordinator continues.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "runtime/sync/shard_parts.hpp"
#include "runtime/sync/update_steps.hpp"

namespace troupe {

// The copies of blocks that workers with their own weights send to a shard, and their means.

// By block id, worker.
using worker_copies = std::map<std::uint32_t, std::map<std::uint32_t, state>>;

// Replaces the rule states (`mean_states`) and the weights (`mean_values`) of the blocks by the
// means of their copies, weighted by mass, in tasks. Computed in worker order, so they do not
// depend on the order of arrival.
void fold_copies(const shard_parts& p, const worker_copies& all, bool mean_states, bool mean_values, effects& out);

class shard_sync : public role {
 public:
  void on(const envelope& e, time_point now, effects& out) final;
  role_status status() const override;
  // The blocks at a boundary, after a flush, for the mode that follows. No update runs there. (Of a
  // block whose update runs, the rule states are left out.)
  std::map<std::uint32_t, block_content> contents() const;

 protected:
  // First values of the workers: weights alone, or also rule states (if workers apply the rule
  // themselves).
  enum class gives { weights, state };
  // `steps`: what happens to a complete gradient (update_.take) or to another pending update of a
  // block before on_updated().
  shard_sync(sync_config c, gives g, const update_list& steps = {replicate::make});

  // --- What a mode decides

  virtual void on_push(const header& h, const push& p, shard_block& b, effects& out) = 0;
  // A worker fetches block `b`. By default it is answered at once with the present value.
  virtual void on_fetch(const header& h, const fetch& f, shard_block& b, effects& out);
  // Any message that neither the shard sync nor a step of the update handles.
  virtual void on_other(const envelope& e, effects& out) { (void)e, (void)out, drop(drop_reason::unexpected); }
  // Called when the blocks are filled, before they are sent to the workers.
  virtual void on_filled(effects& out) { (void)out; }
  // An update has passed all steps: the block has its next version.
  virtual void on_updated(shard_block& b, effects& out) { (void)b, (void)out; }
  // All workers have flushed at boundary `step`. Called once. The shard then waits until quiet()
  // returns true, which is checked after every message.
  virtual void on_all_flushed(std::uint64_t step, effects& out) { (void)step, (void)out; }
  virtual bool quiet(std::uint64_t step) {
    (void)step;
    return tasks_.size() == 0;
  }
  // A worker with its own weights has sent its copy of a block. By default it is kept for the means
  // of this flush.
  virtual void on_copy(const header& h, const state& s, effects& out);
  // Collections read b.value. A mode whose weights are elsewhere fetches them first and calls
  // answer_collects() when they have arrived.
  virtual void before_collect(effects& out) { blocks_.answer_collects(out); }
  // Nodes have failed. From now on only messages that on_message_while_quiesced() handles are
  // accepted. A mode whose weights are not in the blocks brings them there first. Must end
  // in say_whats_here(); by default at once.
  virtual void on_quiesce(const quiesce& s, effects& out) {
    (void)s;
    say_whats_here(out);
  }
  virtual void on_message_while_quiesced(const envelope& e, effects& out) { (void)e, (void)out, drop(drop_reason::quiesced); }

  // --- What it may call

  // Replaces rule states and weights by the means of the copies of this flush.
  void fold_contributions(bool mean_states, bool mean_values, effects& out) {
    fold_copies(parts(), contributed_, mean_states, mean_values, out);
  }
  void take_copy(const header& h, const state& s, effects& out);
  void say_whats_here(effects& out) const;  // sends the inventory
  // Counts the reason, if there is one.
  void note(std::optional<drop_reason> why) {
    if (why) drop(*why);
  }
  shard_parts parts() { return {config_, blocks_, tasks_}; }
  header to(role_id r) const { return header_between(config_.job, config_.self, r); }
  // Returns the worker to which the worker sync or reducer `r` belongs; for other roles the number
  // of workers.
  std::uint32_t worker_of(role_id r) const { return troupe::worker_of(*config_.plan, r); }
  std::uint32_t workers() const { return static_cast<std::uint32_t>(config_.plan->workers.size()); }
  std::uint32_t group() const { return (*config_.plan)[config_.self].group; }

  sync_config config_;
  shard_blocks blocks_;
  pending_tasks tasks_;
  update_steps update_;

 private:
  bool answers_quiesced(const envelope& e, effects& out);
  void take_start(effects& out);
  void filled(effects& out);
  void take_push(const header& h, const push& p, effects& out);
  void take_fetch(const header& h, const fetch& f, effects& out);
  void take_ready(const envelope& e, const ready& r, effects& out);
  void take_wish(const header& h, const want_histograms& w, effects& out);
  void check_flushed(effects& out);
  void give(role_id r, const shard_block& b, effects& out) const;

  gives gives_;
  bool started_ = false;
  std::optional<std::pair<role_id, std::uint64_t>> quiesced_;  // sender and request number of `quiesce`
  std::set<role_id> flushed_;                                  // workers whose ready{flushed} of this round has arrived
  bool notified_ = false;                                      // on_all_flushed has been called
  worker_copies contributed_;                                  // of this flush
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> contributed_at_;  // by block, worker: round of the latest
  struct {
    std::uint64_t number = 0, boundary = 0;  // of the flush, and its boundary
  } round_;
  std::size_t members_ = 0;      // number of workers of the groups that this shard serves
  std::vector<envelope> early_;  // messages that arrived before the blocks were filled
};

}  // namespace troupe
