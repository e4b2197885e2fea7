// What every mode's shard half shares: its blocks of parameters with version and rule state, how they are filled, updated, collected.
// A plain struct and a list, not a base class: a mode decides by itself when a block changes.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/reduce/summing.hpp"
#include "runtime/sync/mode.hpp"

namespace troupe {

header header_between(std::uint32_t job, role_id from, role_id to);

struct shard_block {
  const param_block* plan = nullptr;
  std::uint64_t version = 0;
  tensor value;       // immutable once sent; an update makes a new one
  tensors rule;       // state tensors of the update rule
  tensor next_value;  // being made by the job that runs
  tensors next_rule;
  bool ready = false;  // filled
  bool updating = false;
};

class shard_blocks {
 public:
  explicit shard_blocks(const shard_config& c);

  std::vector<shard_block>& list() { return blocks_; }
  shard_block* find(std::uint32_t id);
  std::uint64_t oldest() const;

  // A job that fills every block, from the fillers or from the weights to begin with; answered by `token`.
  void fill(std::uint64_t token, effects& out);
  // A job: first the additions that are due, then one step of the rule with `scale` times the sum; answered by `token`.
  void update(shard_block& b, additions due, sum_ptr sum, double scale, std::uint64_t token, effects& out);
  void updated(shard_block& b);
  // train.dynamics.lr, .decay from a step on. Others are ignored (and refused by whoever checked the key).
  void set(const set_value& s);
  // Sends the state of every block once it has reached `version`.
  void collect_at(const collect& c, std::uint64_t version, effects& out);
  void answer_collects(effects& out);

 private:
  struct wanted {
    collect request;
    std::uint64_t version = 0;
    std::vector<bool> sent;
  };
  double value_at(const std::vector<std::pair<std::uint64_t, double>>& changes, double first, std::uint64_t step) const;

  const shard_config& config_;
  std::vector<shard_block> blocks_;
  std::vector<wanted> collects_;
  std::vector<std::pair<std::uint64_t, double>> lr_, decay_;  // (from step, value)
};

}  // namespace troupe
