// Gathers all blocks of a job, with the states of the rule and what layers carry, and puts whole
// parameters together by name. Knows the plan's blocks and who has them, which have come, and how
// they lie in parameters; never why they are wanted, what step it is, or what becomes of them.
//
//   idle --begin--> gathering --the last block--> joining (a task: join) --joined--> idle
//
// Invariants: an answer to another request, a second one, and one of another size than the block
// are dropped; names are in the graph's order. Where some lanes have carried nothing yet, nothing
// carried is collected. Numbers are looked at where they meet: what is not finite is named. Errors:
// none.
// Threads: a value, but for what join() returns, which runs as a task while nothing else touches
// the collection.
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

// What has been collected.
struct collection {
  std::vector<std::optional<state>> blocks;  // of the plan, then pieces of carried state
  std::vector<std::uint64_t> updates;        // by block: that its rule states have seen
  named_tensors weights, rule, carried;      // "<param>", "<param>@<state>", "<layer>.<carry>@carried"
  std::vector<carried_piece> pieces;
  // The first that holds an infinity or what is no number; empty: none. Whoever stores them looks
  // here.
  std::string not_finite;
  bool fetched = false;  // some came from a device, and are home when the task is over

  void look();                // at every number, for not_finite
  named_tensors all() const;  // in that order
  std::map<std::string, std::uint64_t> updates_by_param(const model_graph& g, const job_plan& p) const;
};

class block_collector {
 public:
  // `rule_states`: names of the rule's state tensors; `type`: of parameters.
  block_collector(std::shared_ptr<const model_graph> g, std::shared_ptr<const job_plan> p, std::vector<std::string> rule_states,
                  dtype type);

  // Asks for everything anew. `carried`: also what stages carry from step to step.
  void begin(bool carried);
  bool under_way() const { return all_ != nullptr; }
  std::uint64_t request() const { return request_; }  // of the last begin(); they count from 1
  std::uint32_t missing() const { return missing_; }
  // Whom to ask: stages with something carried, each once; shards of the first server group, which
  // is the master of the others.
  std::vector<role_id> asked_stages() const;
  std::vector<role_id> asked_shards() const;

  // A block whose rule states have seen so many updates. True: it was the last one missing, and
  // join() can run.
  bool take(const state& s, std::uint64_t updates);
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
  std::shared_ptr<collection> all_;  // shared with the task
};

}  // namespace troupe
