// Collects all blocks of a job, with rule states and carried state, and joins them to whole
// parameters by name. It knows the plan's blocks, their shards and their place in parameters, but
// not the purpose of the collection.
//
//   idle --begin--> gathering --the last block--> joining (a task: join) --joined--> idle
//
// Invariants: answers to another request, duplicates, and blocks of a wrong size are dropped; names
// are in the graph's order. If a sequence slot has no carried state yet, no carried state is
// returned. Every collection is checked for values that are not finite (not_finite). Errors: none.
// Threads: a value; the task that join() returns has exclusive access to the collection until
// joined() is called.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/model/graph.hpp"
#include "runtime/plan/carried.hpp"
#include "runtime/plan/plan.hpp"
#include "runtime/role.hpp"

namespace troupe {

using named_tensors = std::vector<std::pair<std::string, tensor>>;

// The result of a collection.
struct collection {
  std::vector<std::optional<state>> blocks;  // of the plan, then pieces of carried state
  std::vector<std::uint64_t> updates;        // by block: updates applied to its rule states
  named_tensors weights, rule, carried;      // "<param>", "<param>@<state>", "<layer>.<carry>@carried"
  std::vector<carried_piece> pieces;
  // Name of the first tensor with an infinity or NaN; empty if there is none. Check it before
  // storing.
  std::string not_finite;
  bool fetched = false;  // some tensors are copied from a device; they are in host memory when the task is done

  void look();                // sets not_finite
  named_tensors all() const;  // weights, rule, carried
  // The weights; with `average`, the average in place of each parameter that has one, which is the
  // last state of its rule.
  named_tensors weights_or_average(const model_graph& g, bool average) const;
  std::map<std::string, std::uint64_t> updates_by_param(const model_graph& g, const job_plan& p) const;
};

class block_collector {
 public:
  // `rule_states`: names of the rule's state tensors; `type`: of parameters.
  block_collector(std::shared_ptr<const model_graph> g, std::shared_ptr<const job_plan> p, std::vector<std::string> rule_states,
                  dtype type);

  // Begins a collection; discards the one in progress. `carried`: also collect the stages' carried
  // state. `with_rule`: also the states of the update rule.
  void begin(bool carried, bool with_rule = true);
  bool under_way() const { return all_ != nullptr; }
  std::uint64_t request() const { return request_; }  // number of the last begin(), counted from 1
  std::uint32_t missing() const { return missing_; }
  // The roles to send the request to: stages with carried state; shards of the first server group,
  // which is the master of the others.
  std::vector<role_id> asked_stages() const;
  std::vector<role_id> asked_shards() const;

  // Takes a block. Returns true if it was the last one missing and join() can run.
  bool take(const state& s);
  task_work join();
  collection joined();  // after the task

 private:
  void name();

  std::shared_ptr<const model_graph> graph_;
  std::shared_ptr<const job_plan> plan_;
  std::vector<std::string> rule_states_;
  dtype type_;
  std::uint64_t request_ = 0;
  std::uint32_t missing_ = 0;
  bool with_rule_ = true;
  std::shared_ptr<collection> all_;  // shared with the task
};

}  // namespace troupe
