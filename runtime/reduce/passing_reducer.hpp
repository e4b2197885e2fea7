// The common part of the stock reducers: passes the sums of each block to the role above it (a
// reducer or the shard) and the returning weights to all roles below it (workers and reducers whose
// sums it receives). The derived class computes a sum from pushes: sum_reducer.hpp (trees),
// ring.cpp.
//
// Messages in:  push (below), weights (above)
// Messages out: push (above), weights (below)
//
// Invariants: a push for a step whose sum has been sent is a duplicate and ignored; weights go down
// once per version.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "ops/tree/packet_tree.hpp"
#include "runtime/plan/reducer_descriptor.hpp"
#include "runtime/reduce/summing.hpp"
#include "runtime/role.hpp"

namespace troupe {

constexpr std::size_t max_open_steps = 64;  // per block: many more than are ever granted at once

class passing_reducer : public role {
 public:
  void on(const envelope& e, time_point now, effects& out) final;
  role_status status() const final;

 protected:
  explicit passing_reducer(reducer_config c);

  // Takes a push from a role below, of the block's size, for a step that has not been sent up.
  virtual void add(const header& h, const push& p, effects& out) = 0;
  virtual void forget(std::uint32_t block, std::uint64_t before) = 0;  // discards open steps that weights have answered

  const job_plan& plan() const { return *config_.plan; }
  role_id self() const { return config_.self; }
  const std::vector<role_id>& below(std::uint32_t block) const { return blocks_[block].below; }
  bool has_left(std::uint32_t block, std::uint64_t step) const { return step < blocks_[block].done; }
  void leaves(std::uint32_t block, std::uint64_t step);  // the step is sent up completely
  // `sum` is the result of the additions `due` and is sent up when they have run; null: nothing is
  // sent yet.
  void add_and_send(std::uint32_t block, std::uint64_t step, tree_node node, const sum_ptr& sum, additions due, effects& out);
  // Runs `work`, which computes `sum`, and then sends it up.
  void run_and_send(std::uint32_t block, std::uint64_t step, tree_node node, const sum_ptr& sum, task_work work, task_cost cost,
                    effects& out);
  virtual std::size_t open() const = 0;  // number of steps with some pushes, over all blocks

 private:
  struct block_state {
    std::vector<role_id> below;  // workers and reducers whose sums arrive here
    std::uint64_t done = 0;      // steps below it were sent up, or are in weights that came down
    std::uint64_t down = 0;      // last version that was passed down
    bool any = false;            // a version was passed down
  };

  struct waiting {
    std::uint32_t block;
    std::uint64_t step;
    tree_node node;
    sum_ptr sum;
  };

  void added(std::uint64_t token, effects& out);
  void send_sum(std::uint32_t block, std::uint64_t step, tree_node node, const tensor& sum, effects& out);
  void take_push(const header& h, const push& p, effects& out);
  void take_weights(const header& h, const weights& w, effects& out);
  void pass(role_id r, std::uint32_t block, std::uint64_t version, const tensor& value, effects& out) const;
  header to(role_id r) const;
  role_id above(std::uint32_t block) const { return plan().above(self(), plan().blocks[block]); }

  reducer_config config_;
  std::vector<block_state> blocks_;
  std::unordered_map<std::uint64_t, waiting> tasks_;
  std::uint64_t tokens_ = 0;
};

}  // namespace troupe
