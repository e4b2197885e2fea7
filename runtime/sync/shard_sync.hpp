// The common part of every mode's shard sync: fills the blocks, sends the first weights, answers
// collections and restarted workers, and flushes.
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

#include <map>
#include <optional>
#include <set>

#include "runtime/sync/shard_block.hpp"
#include "runtime/sync/tasks.hpp"

namespace troupe {

class shard_sync : public role {
 public:
  void on(const envelope& e, time_point now, effects& out) final;
  role_status status() const override;
  // The blocks at a boundary, after a flush, for the mode that follows.
  std::map<std::uint32_t, block_content> contents() const;

 protected:
  // First values of the workers: weights alone, or also rule states (if workers apply the rule
  // themselves).
  enum class gives { weights, state };
  shard_sync(sync_config c, gives g);

  virtual void on_push(const header& h, const push& p, shard_block& b, effects& out) = 0;
  // A worker fetches block `b`. By default it is answered at once with the present value.
  virtual void on_fetch(const header& h, const fetch& f, shard_block& b, effects& out);
  virtual void on_other(const envelope& e, effects& out) { (void)e, (void)out, drop(drop_reason::unexpected); }
  // Called when the blocks are filled, before they are sent to the workers.
  virtual void on_filled(effects& out) { (void)out; }
  // All workers have flushed at boundary `step`. Called once. The shard then waits until quiet()
  // returns true, which is checked after every message.
  virtual void on_all_flushed(std::uint64_t step, effects& out) { (void)step, (void)out; }
  virtual bool quiet(std::uint64_t step) {
    (void)step;
    return tasks_.size() == 0;
  }
  // For modes whose workers have their own weights: the copies that they sent at the flush, by
  // block and worker. fold replaces the rule states (`mean_states`) and the weights (`mean_values`)
  // by their means, in which each worker counts by its mass.
  using contributions =
      std::map<std::uint32_t, std::map<std::uint32_t, std::pair<double, state>>>;  // by block, worker: (mass, copy)
  void fold_contributions(bool mean_states, bool mean_values, effects& out) { fold(contributed_, mean_states, mean_values, out); }
  void fold(const contributions& from, bool mean_states, bool mean_values, effects& out);
  void take_contribution(const header& h, const state& s, effects& out);
  // Handles a copy that was not sent for a flush. Returns false if it was.
  virtual bool on_copy(const header& h, const state& s, effects& out) {
    (void)h, (void)s, (void)out;
    return false;
  }
  // The step whose gradient block `b` expects next from a restarted worker.
  virtual std::uint64_t wanted_from(std::uint32_t worker, const shard_block& b) const = 0;
  // A restarted worker asks where to continue. By default it is answered at once.
  virtual void on_join(const header& h, shard_block& b, effects& out) { answer_join(h, b, out); }
  void answer_join(const header& h, shard_block& b, effects& out) const;
  // Called when a restarted worker asks for this shard's first block: requests to its previous
  // incarnation are lost.
  virtual void on_rejoined(std::uint32_t worker, effects& out) { (void)worker, (void)out; }
  // The version of block `b` in this worker's count.
  virtual std::uint64_t version_for(std::uint32_t worker, const shard_block& b) const { return (void)worker, b.version; }
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
  void say_whats_here(effects& out) const;  // sends the inventory

  header to(role_id r) const { return header_between(config_.job, config_.self, r); }
  // Sends block `b`. `wanted`: the step wanted next (weights.wanted); `answers`: header.packets,
  // the number of answers that a restarted worker gets for this block.
  void give(role_id r, const shard_block& b, std::uint64_t version, std::uint16_t flags, std::uint64_t wanted,
            std::uint32_t answers, effects& out) const;
  // Applies the rule to block `b` with `clip` times the mean over the packets of the sum;
  // on_updated() follows. A sum that is not finite is reported and not applied: the step is skipped
  // if max_skipped > 0, else the job ends.
  void run_update(shard_block& b, additions due, sum_ptr sum, std::uint32_t packets, double clip, std::uint64_t step, effects& out);
  virtual bool looked_at() const { return false; }  // true: sums are checked before run_update()
  // True: every change of a block is an update with a gradient (run_update), so histograms are of
  // both. False: of the weights alone.
  virtual bool updates_by_gradients() const { return false; }
  void tell_not_finite(std::uint32_t group, std::vector<std::uint32_t> blocks, std::uint64_t step, effects& out) const;
  virtual void on_updated(shard_block& b, effects& out) { (void)b, (void)out; }
  // Completes the update of a block whose task has finished: on_updated() follows, at once or when
  // all replicas have the update.
  void commit(shard_block& b, effects& out);
  // Returns the worker to which the worker sync or reducer `r` belongs; for other roles the number
  // of workers.
  std::uint32_t worker_of(role_id r) const;
  std::uint32_t workers() const { return static_cast<std::uint32_t>(config_.plan->workers.size()); }
  std::uint32_t group() const { return (*config_.plan)[config_.self].group; }

  sync_config config_;
  shard_blocks blocks_;
  pending_tasks tasks_;

 private:
  bool answers_quiesced(const envelope& e, effects& out);
  void copied(const header& h, effects& out);
  void take_push(const header& h, const push& p, effects& out);
  void take_fetch(const header& h, const fetch& f, effects& out);
  void take_ready(const header& h, const ready& r, effects& out);
  void take_wish(const header& h, const want_histograms& w, effects& out);
  void count_weights(effects& out);
  void tell_histograms(std::shared_ptr<block_histograms> counted, effects& out);
  void check_flushed(effects& out);

  gives gives_;
  struct {
    role_id first = no_role;       // first replica of the chain
    std::uint64_t committing = 0;  // number of blocks whose update is not acknowledged
  } copies_;
  bool started_ = false;
  std::optional<std::pair<role_id, std::uint64_t>> quiesced_;  // sender and request number of `quiesce`
  std::set<role_id> flushed_;                                  // workers whose ready{flushed} of this round has arrived
  bool notified_ = false;                                      // on_all_flushed has been called
  contributions contributed_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> contributed_at_;  // by block, worker: round of the latest
  struct {
    std::uint64_t number = 0, boundary = 0;  // header.id of the flush, and its boundary
  } round_;
  std::size_t members_ = 0;      // number of workers of the groups that this shard serves
  std::vector<envelope> early_;  // messages that arrived before the blocks were filled
};

}  // namespace troupe
