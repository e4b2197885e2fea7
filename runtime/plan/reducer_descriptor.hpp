// The table of reducers: between workers that push and shards that take. A row says which roles it
// adds to a plan and which way sums take through them; weights come back the same way. A reducer
// outside the tree: examples/own_reducer.
//
// Whatever the row, a sum covers a contiguous range of packets in the brackets of the fixed tree,
// so weights do not depend on it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/options.hpp"
#include "ops/type_table.hpp"
#include "runtime/plan/plan.hpp"
#include "runtime/role.hpp"

namespace troupe {

// What a row draws. Ranks are the workers of the plan, in the order of their packets.
class reducer_layout {
 public:
  explicit reducer_layout(job_plan& p) : plan_(p) {}
  std::uint32_t workers() const { return static_cast<std::uint32_t>(plan_.workers.size()); }
  const std::string& node_of(std::uint32_t rank) const { return plan_.nodes[plan_[plan_.workers[rank]].node].name; }
  // A reducer on the node of this rank, called after its worker. Its sums go to the shards, unless
  // above() says where else.
  role_id add(std::uint32_t rank);
  void push_to(std::uint32_t rank, role_id reducer);  // this worker's sums go there, and its weights come from there
  void above(role_id reducer, role_id upper);
  // Each one's sums go to the next, the last one's to the first; of a block, up to the one beside
  // its shard, which passes them on. For rows that have shards beside workers, with a reducer for
  // each of these in the order of their ranks.
  void ring(const std::vector<role_id>& reducers);

 private:
  job_plan& plan_;
};

struct reducer_config {
  std::uint32_t job = 0;
  role_id self = no_role;
  std::shared_ptr<const job_plan> plan;
  std::uint64_t first_step = 0;
  std::uint32_t incarnation = 0;  // > 0: this node has been restarted
  dtype type = dtype::f32;        // of parameters
};

struct reducer_descriptor {
  std::string name, doc;
  option_specs specs;  // of [train.exchange], beside `reducer`
  // Where it wants workers and shards; null: wherever they are.
  std::function<reducer_placing(const options&)> places = {};
  // Null: it adds nothing, and workers push to the shards.
  std::function<void(const options&, reducer_layout&)> lay_out = {};
  // The value of a role that it added; null: the stock one (reduce/sum_reducer.hpp), which sums
  // what comes from below and passes on.
  std::function<std::unique_ptr<role>(reducer_config)> make = {};
};

class reducer_registry : public type_table<reducer_descriptor> {};

}  // namespace troupe
