// The common part of every mode's shard half: fill, hand out the first weights, answer collections
// and restarted workers, settle.
//
// Messages in:  start, push, fetch, collect, set_value, ready{settled} (workers), finished, halt
// Messages out: weights or state (first values, answers), state (collections), ready{settled}
//               (coordinator)
//
// Settling: the coordinator has told all workers to send what they hold; each then says `ready` to
// every shard, behind its last push. A shard that has heard all of them, and has nothing under way,
// tells the coordinator, and its blocks do not change until the coordinator goes on.
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
  // At a boundary, after settling: for the mode that follows.
  std::map<std::uint32_t, block_content> contents() const;

 protected:
  // What the workers begin with: weights alone, or the states of the rule too (they step by
  // themselves).
  enum class gives { weights, state };
  shard_sync(sync_config c, gives g);

  virtual void on_push(const header& h, const push& p, shard_block& b, effects& out) = 0;
  // A worker wants block `b`. By default: at once, as it is.
  virtual void on_fetch(const header& h, const fetch& f, shard_block& b, effects& out);
  virtual void on_other(const envelope& e, effects& out) { (void)e, (void)out, drop(drop_reason::unexpected); }
  // After the first values are there, before the workers hear of them.
  virtual void on_filled(effects& out) { (void)out; }
  // All workers have settled at `step`. Called once; then the shard waits until it is quiet, asked
  // again after every message.
  virtual void on_all_flushed(std::uint64_t step, effects& out) { (void)step, (void)out; }
  virtual bool quiet(std::uint64_t step) {
    (void)step;
    return tasks_.size() == 0;
  }
  // For modes whose workers keep their own copies: what they sent when they settled, by block and
  // worker. `mean_states` makes the states of the rule their mean, `mean_values` the weights too,
  // each worker's counting by its mass.
  using contributions =
      std::map<std::uint32_t, std::map<std::uint32_t, std::pair<double, state>>>;  // by block, worker: (mass, copy)
  void fold_contributions(bool mean_states, bool mean_values, effects& out) { fold(contributed_, mean_states, mean_values, out); }
  void fold(const contributions& from, bool mean_states, bool mean_values, effects& out);
  void take_contribution(const header& h, const state& s, effects& out);
  // A copy that is not a contribution; false: it is one.
  virtual bool on_copy(const header& h, const state& s, effects& out) {
    (void)h, (void)s, (void)out;
    return false;
  }
  // The step whose gradient this block wants next from a worker that has been restarted.
  virtual std::uint64_t wanted_from(std::uint32_t worker, const shard_block& b) const = 0;
  // A restarted worker wants to go on. By default it is answered at once.
  virtual void on_join(const header& h, shard_block& b, effects& out) { answer_join(h, b, out); }
  void answer_join(const header& h, shard_block& b, effects& out) const;
  // A restarted worker has asked for its first block: what it had been asked before is lost.
  virtual void on_rejoined(std::uint32_t worker, effects& out) { (void)worker, (void)out; }
  // Of block `b`, as this worker counts versions.
  virtual std::uint64_t version_for(std::uint32_t worker, const shard_block& b) const { return (void)worker, b.version; }
  // Collections read b.value: a mode whose weights are elsewhere fetches them first and calls
  // answer_collects() when they are here.
  virtual void before_collect(effects& out) { blocks_.answer_collects(out); }

  // Nodes are lost, and from here on nothing comes in but what on_message_while_quiesced() takes.
  // Where the mode's weights are not the blocks they are brought here first; then say_whats_here().
  // By default at once.
  virtual void on_quiesce(const quiesce& s, effects& out) {
    (void)s;
    say_whats_here(out);
  }
  virtual void on_message_while_quiesced(const envelope& e, effects& out) { (void)e, (void)out, drop(drop_reason::quiesced); }
  void say_whats_here(effects& out) const;

  header to(role_id r) const { return header_between(config_.job, config_.self, r); }
  // `answers`: to a restarted worker, how many it gets about this block.
  void give(role_id r, const shard_block& b, std::uint64_t version, std::uint16_t flags, std::uint64_t clock, std::uint32_t answers,
            effects& out) const;
  // Runs the rule on block `b` with `clip` times the mean over the packets of the sum; on_updated()
  // follows. A sum that is not finite is told and not applied: where steps may be left out this one
  // is, else the job ends.
  void run_update(shard_block& b, additions due, sum_ptr sum, std::uint32_t packets, double clip, std::uint64_t step, effects& out);
  virtual bool looked_at() const { return false; }  // sums have been found finite before they come to run_update()
  void tell_not_finite(std::uint32_t group, std::vector<std::uint32_t> blocks, std::uint64_t step, effects& out) const;
  virtual void on_updated(shard_block& b, effects& out) { (void)b, (void)out; }
  // What the task has made of the block is done, and the block's: on_updated() follows, at once or
  // when all replicas have it too.
  void commit(shard_block& b, effects& out);
  // The worker a role belongs to, when it is one's worker half or reducer; else the number of
  // workers.
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
  void check_flushed(effects& out);

  gives gives_;
  struct {
    role_id first = no_role;       // of our replicas
    std::uint64_t committing = 0;  // blocks that they have not all got yet
  } copies_;
  bool started_ = false;
  std::optional<std::pair<role_id, std::uint64_t>> quiesced_;  // who has asked what is here, and the number of the question
  std::set<role_id> flushed_;
  bool notified_ = false;  // on_all_flushed has been called
  contributions contributed_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> contributed_at_;  // by block, worker: round of the latest
  struct {
    std::uint64_t number = 0, boundary = 0;  // header.id, and the step it is about
  } round_;
  std::size_t members_ = 0;      // workers of the groups we serve
  std::vector<envelope> early_;  // what came before the blocks were filled
};

}  // namespace troupe
