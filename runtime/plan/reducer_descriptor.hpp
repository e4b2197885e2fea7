// The table of reducers, which sit between workers that push sums and shards that receive them. An
// entry adds roles to a plan and routes sums through them; weights return on the same route. A
// reducer outside the tree: examples/own_reducer.
//
// With every reducer, a sum covers a contiguous range of packets, bracketed as in the fixed packet
// tree, so weights do not depend on the reducer.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/options.hpp"
#include "ops/type_table.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plan/plan.hpp"
#include "runtime/role.hpp"

namespace troupe {

// Adds roles and routes of an entry. Ranks are the workers of the plan, in packet order.
class reducer_layout {
 public:
  explicit reducer_layout(job_plan& p) : plan_(p) {}
  std::uint32_t workers() const { return static_cast<std::uint32_t>(plan_.workers.size()); }
  const std::string& node_of(std::uint32_t rank) const { return plan_.nodes[plan_[plan_.workers[rank]].node].name; }
  // Adds a reducer on the node and device of this rank, named after its worker. Its sums go to the
  // shards unless above() sets another receiver. `across`: workers of its node leave their sums in
  // the memory of their devices, and the reducer adds them with device::sum_across.
  role_id add(std::uint32_t rank, bool across = false);
  void push_to(std::uint32_t rank, role_id reducer);  // this worker's sums go there, and its weights come from there
  void above(role_id reducer, role_id upper);
  // Sums pass from each reducer to the next, from the last to the first; those of a block up to the
  // reducer on the node of its shard, which sends them to the shard. For entries that have shards
  // on the nodes of workers, with one reducer for each, in rank order.
  void ring(const std::vector<role_id>& reducers);
  // Called once by the planner, after the entry: lists what is below each reducer.
  void finish();

 private:
  job_plan& plan_;
};

struct reducer_config {
  std::uint32_t job = 0;
  role_id self = no_role;
  std::shared_ptr<const job_plan> plan;
  std::uint64_t first_step = 0;
  dtype type = dtype::f32;  // type of parameters
};

struct reducer_descriptor {
  std::string name, doc;
  option_specs specs;  // of [train.exchange], next to `reducer`
  // The required placement of workers and shards; null: none.
  std::function<reducer_placing(const options&)> places = {};
  // Null: it adds no roles, and workers push to the shards.
  std::function<void(const options&, reducer_layout&)> lay_out = {};
  // An error if a job with this plan cannot use it. Null: every job can.
  std::function<expected<void>(const job_spec&, const job_plan&)> check = {};
  // Makes a role that it added; null: the stock one (reduce/sum_reducer.hpp), which sums what it
  // receives from below and passes the sum on.
  std::function<std::unique_ptr<role>(reducer_config)> make = {};
};

class reducer_registry : public type_table<reducer_descriptor> {};

}  // namespace troupe
