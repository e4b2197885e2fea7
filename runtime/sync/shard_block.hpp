// What every mode's shard half shares: its blocks of parameters with version and rule state, how
// they are filled, updated, collected. A plain struct and a list, not a base class: a mode decides
// by itself when a block changes.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/reduce/summing.hpp"
#include "runtime/sync/mode.hpp"

namespace troupe {

header header_between(std::uint32_t job, role_id from, role_id to);

// The value at `step` of something a person may have changed; the first applies where nothing has
// been set.
double value_at(const std::vector<std::pair<std::uint64_t, double>>& changes, double first, std::uint64_t step);
// What the rule is told at `step`, for parameter `p`.
rule_step rule_step_at(const sync_config& c, std::uint32_t p, std::uint64_t step);
// train.dynamics.lr, .decay from a step on. Others are ignored (and refused by whoever checked the
// key).
void apply_setting(sync_config& c, const set_value& s);

// What a task makes of a block. Until it has finished the block is as it was, but for rule states
// that nobody has been sent: in place.
struct block_update {
  tensor value;
  tensors rule;               // empty: as they were
  std::uint64_t updates = 0;  // that the states have seen then
  bool not_finite = false;    // the gradient was: nothing of this counts
};

// A block as it was before its last updates.
struct past_block {
  std::uint64_t version = 0, updates = 0;
  tensor value;
  tensors rule;  // only where the job outlives nodes
};

struct shard_block {
  const param_block* plan = nullptr;
  std::uint64_t version = 0;                  // updates so far, from the job's beginning
  std::uint64_t updates = 0;                  // that the rule's states have seen
  tensor value;                               // immutable once sent; an update makes a new one
  tensors rule;                               // state tensors of the update rule
  std::shared_ptr<struct block_update> next;  // being made by the task that runs
  // The newest first. Where there are other nodes: a worker there may be restarted and ask for the
  // value one version ago, or a node be lost and the job go on from an earlier version.
  std::deque<past_block> past;
  std::map<std::uint64_t, tensor>
      earlier;          // sync_config::retains_for_replay: the versions before, as many as a restarted stage may want
  bool filled = false;  // its first values are here
  bool updating = false;
};

class shard_blocks {
 public:
  explicit shard_blocks(const sync_config& c);

  std::vector<shard_block>& list() { return blocks_; }
  const std::vector<shard_block>& list() const { return blocks_; }
  shard_block* find(std::uint32_t id);
  std::uint64_t oldest() const;

  // A task that fills every block, from the fillers or from what there is to begin with. To be
  // followed by filled().
  task_work fill();
  void filled();
  // A task: first the additions that are due, then one step of the rule with `clip` times the sum
  // over so many packets, divided by them (running statistics: reduce/fold.hpp). `looks`: at the
  // sum first, which is not applied where it is not finite (block_update::not_finite). To be
  // followed by updated().
  std::pair<task_work, task_cost> update(shard_block& b, additions due, sum_ptr sum, std::uint32_t packets, double clip,
                                         std::uint64_t step, bool looks);
  void updated(shard_block& b);
  // To a replica: the block as it is, or as its next update leaves it.
  void send_copy(const shard_block& b, role_id to, effects& out) const;
  // From now on so many versions before the newest stay, where there are other nodes. 1 without
  // this.
  void remember(std::size_t versions) { remembered_ = versions; }
  // What is here (quiesce), for who asks for one version of all: nothing of blocks that are not
  // filled. And that version; of a block that has no such version, nothing.
  inventory at_hand(std::uint64_t request) const;
  void send_version(const collect& c, role_id asker, std::uint64_t version, effects& out) const;
  // The step is left out: the next update is another version of the same weights, and the states of
  // the rule are as they were. To be followed by updated().
  void leave_out(shard_block& b);
  // Sends the state of every block once it has reached `version`, to whoever asks.
  void collect_at(const collect& c, role_id asker, std::uint64_t version, effects& out);
  void answer_collects(effects& out);
  bool hold_collects = false;  // the values are elsewhere and being fetched

 private:
  struct wanted {
    collect request;
    role_id asker;
    std::uint64_t version = 0;
    std::vector<bool> sent;
  };

  const sync_config& config_;
  std::vector<shard_block> blocks_;
  std::vector<std::uint32_t> at_;  // by block id: position + 1
  std::vector<wanted> collects_;
  std::size_t remembered_ = 1;
  std::shared_ptr<std::vector<block_update>> filling_;  // by position in blocks_
};

}  // namespace troupe
