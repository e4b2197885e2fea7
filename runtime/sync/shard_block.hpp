// The part that the shard syncs of all modes share: blocks of parameters with version and rule
// states, and how they are filled, updated and collected. Plain structs and a list instead of a
// base class, because each mode decides when a block changes.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/base/lent.hpp"
#include "runtime/reduce/histogram.hpp"
#include "runtime/reduce/summing.hpp"
#include "runtime/sync/mode.hpp"

namespace troupe {

header header_between(std::uint32_t job, role_id from, role_id to);

// The value at `step` of a setting that users may change; `first` if no change applies yet.
double value_at(const std::vector<std::pair<std::uint64_t, double>>& changes, double first, std::uint64_t step);
// The input of the update rule at `step`, for parameter `p`.
rule_step rule_step_at(const sync_config& c, std::uint32_t p, std::uint64_t step);
// Records a change of train.dynamics.lr or .decay from a step on. Other keys are ignored (they were
// refused where the key was checked).
void apply_setting(sync_config& c, const set_value& s);

// The result of a task that updates a block. The block itself stays unchanged until the task has
// finished, except for rule states that have not been sent to any role, which are updated in place
// (shard_block::rule is lent to the task).
struct block_update {
  tensor value;
  tensors rule;                                       // empty: unchanged
  std::uint64_t updates = 0;                          // number of updates that the states have seen afterwards
  bool not_finite = false;                            // the gradient was not finite: discard this result
  std::shared_ptr<block_histograms> histograms = {};  // null: none are wanted of this update
};

// An earlier version of a block.
struct past_block {
  std::uint64_t version = 0, updates = 0;
  tensor value;
  tensors rule;  // only if the job survives node failures (sync_config::outlives)
};

struct shard_block {
  const param_block* plan = nullptr;
  std::uint64_t version = 0;                        // number of updates since the job's first step
  std::uint64_t updates = 0;                        // number of updates that the rule states have seen
  tensor value;                                     // immutable once sent; an update makes a new tensor
  lent<tensors> rule{std::make_shared<tensors>()};  // states of the update rule
  lent<block_update> next;  // the pending update: lent to the task that computes it, then complete until updated()
  // The newest first. Only if there are several nodes: after a node failure the job may continue
  // from an earlier version.
  std::deque<past_block> past;
  struct histogram_wish {
    std::uint64_t step = 0, version = 0;  // for this step, of the first update to this version or a later one
  };
  std::optional<histogram_wish> wish;
  bool filled = false;  // it has its first values
  bool updating = false;
};

class shard_blocks {
 public:
  explicit shard_blocks(const sync_config& c);

  std::vector<shard_block>& list() { return blocks_; }
  const std::vector<shard_block>& list() const { return blocks_; }
  shard_block* find(std::uint32_t id);
  std::uint64_t oldest() const;

  // A task that fills every block, from the fillers or from sync_config::inherited. Call filled()
  // when it has finished.
  task_work fill();
  void filled();
  // A task that runs the additions that are due, then applies one step of the rule with the
  // gradient clip * sum / packets (running statistics: reduce/fold.hpp). `looks`: it first checks
  // the sum, and does not apply one that is not finite (block_update::not_finite). Call
  // take_back() when it has finished, then updated().
  std::pair<task_work, task_cost> update(shard_block& b, additions due, sum_ptr sum, std::uint32_t packets, double clip,
                                         std::uint64_t step, bool looks);
  // The task has finished: the shard has b.next and b.rule back.
  void take_back(shard_block& b);
  void updated(shard_block& b);
  // Sends a replica the block as its pending update leaves it, or as it is if none is pending.
  void send_copy(const shard_block& b, role_id to, effects& out) const;
  // Retains this many versions before the newest one, if there are other nodes; the default is 1.
  void remember(std::size_t versions) { remembered_ = versions; }
  // at_hand: the versions that are here, for the answer to `quiesce`; blocks without first values
  // are left out. send_version: sends `asker` the blocks that have this version (any_version: their
  // newest).
  inventory at_hand(std::uint64_t request) const;
  void send_version(const collect& c, role_id asker, std::uint64_t version, effects& out) const;
  // Skips the step: the next version has the same weights and rule states. Call updated()
  // afterwards.
  void leave_out(shard_block& b);
  // Sends `asker` the state of every block once it has reached `version`; with rule states, also
  // once no task changes them.
  void collect_at(const collect& c, role_id asker, std::uint64_t version, effects& out);
  void answer_collects(effects& out);
  // Histograms of the weights alone, for `step`: of every block but those `without` (by position)
  // once it has reached `version`, in the same way as a collection. take_countable() returns the
  // blocks that can be counted now.
  struct countable {
    std::uint32_t block = 0;
    std::uint64_t step = 0, version = 0;
    tensor value;
  };
  void count_at(std::uint64_t step, std::uint64_t version, std::vector<bool> without);
  std::vector<countable> take_countable() { return std::exchange(countable_, {}); }
  bool hold_collects = false;  // collections wait: the values are being fetched from elsewhere

 private:
  std::shared_ptr<block_histograms> wanted_histograms(const shard_block& b) const;

  struct wanted {
    collect request;
    role_id asker;
    std::uint64_t version = 0;
    std::vector<bool> sent;
    std::optional<std::uint64_t> histograms_for = {};  // a step: count the blocks instead of sending them
  };

  const sync_config& config_;
  std::vector<shard_block> blocks_;
  std::vector<std::uint32_t> at_;  // by block id: position in blocks_ + 1; 0: not here
  std::vector<wanted> collects_;
  std::vector<countable> countable_;
  std::size_t remembered_ = 1;
  lent<std::vector<block_update>> filling_;  // by position in blocks_
};

}  // namespace troupe
