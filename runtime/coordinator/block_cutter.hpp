// The other way round than block_collector: whole parameters, as the last plan of a job left them,
// become this plan's blocks, with the states of the rule and what layers carry. Knows the plan's
// blocks, how they lie in parameters, and whose they are; never who tells it to, or what is said
// before and after.
//
// What lies in one piece is a view and there at once; columns of a parameter have to be picked out
// of it, by a task.
// Invariants: every block and piece is handed out once; no whole parameter is kept beyond the cut.
// Errors: none (that the names are there has been checked before the plan was).
// Threads: a value, but for what cut() returns, which runs as a task before picked() is called.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/coordinator/block_collector.hpp"
#include "runtime/model/graph.hpp"
#include "runtime/plan/plan.hpp"
#include "runtime/role.hpp"

namespace troupe {

struct restored_block {
  role_id to = no_role;
  std::uint64_t version = 0, updates = 0;  // of the weights; that its rule states have seen
  restore_state what;
};

class block_cutter {
 public:
  struct source {
    std::uint64_t step = 0;  // version of all weights
    named_tensors named;     // as collection::all has them
    std::map<std::string, std::uint64_t> updates;
  };
  block_cutter(const model_graph& g, std::shared_ptr<const job_plan> p, const std::vector<std::string>& rule_states, source from);

  std::vector<restored_block> at_once();  // pieces of carried state, then blocks; to be called once
  bool more() const { return !cuts_->empty(); }
  task_work cut() const;
  std::vector<restored_block> picked();  // after the task

 private:
  struct cut_block {
    restored_block block;
    std::uint32_t id = 0;
    tensors whole;
  };
  std::shared_ptr<const job_plan> plan_;
  std::vector<restored_block> views_;
  std::shared_ptr<std::vector<cut_block>> cuts_;  // shared with the task
};

}  // namespace troupe
