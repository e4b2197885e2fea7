// The reverse of block_collector: cuts the whole parameters that the job's previous plan left into
// the blocks of this plan, with rule states and carried state. It knows the plan's blocks, their
// place in parameters and their shards.
//
// A contiguous block is a view and available immediately. A block of columns is copied by a task.
// Invariants: every block and piece is returned once; no whole parameter is kept after the cut.
// Errors: none (the caller has checked that all names exist).
// Threads: a value; the task that cut() returns must run before picked() is called.
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
  std::uint64_t version = 0;  // of the weights
  restore_state what;
};

class block_cutter {
 public:
  struct source {
    std::uint64_t step = 0;  // version of all weights
    named_tensors named;     // as collection::all() returns them
    std::map<std::string, std::uint64_t> updates;
  };
  block_cutter(const model_graph& g, std::shared_ptr<const job_plan> p, const std::vector<std::string>& rule_states, source from);

  std::vector<restored_block> at_once();  // pieces of carried state, then contiguous blocks; call it once
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
