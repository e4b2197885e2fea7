// A job made ready on one node: specification, opened data, graph, plan; and from these any of the
// plan's roles. Every node makes the same job from the same job_spec and node list, so only the
// specification travels.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "runtime/data/augment.hpp"
#include "runtime/job/tables.hpp"
#include "runtime/model/graph.hpp"
#include "runtime/plan/plan.hpp"
#include "runtime/role.hpp"
#include "runtime/spec/job_spec.hpp"

namespace troupe {

struct prepared_job {
  std::uint32_t id = 0;  // names the job in every message header; set before make_role
  job_spec spec;
  topology_spec asked;           // as the file has it; the plan may have fewer workers (elastic.hpp)
  std::string filed_mode;        // mode_text() of the file's mode; people may have switched to another
  std::vector<node_spec> nodes;  // that the plan was made for
  std::shared_ptr<const tables> all;
  std::shared_ptr<const source> data;
  std::shared_ptr<const augmentation> augment;  // null: none
  model_graph graph;
  job_plan plan;
  std::uint64_t steps_per_epoch = 0;
  std::uint64_t last_step = 0;  // training ends after this many steps at the latest (0: no such limit)
  // The host may restart roles while the job runs, one by one or with their node (the simulator
  // does). Where layers are placed, stages, loaders, halves and shards then keep what a restarted
  // one will ask for (docs/protocols.md, "After a restart"); else such a restart ends the job.
  bool restarts = false;
  bool retains_for_replay() const { return restarts && plan.placed; }
  // It may go on from what its shards have when nodes are lost (coordinator/surviving_state.hpp).
  bool outlives_nodes() const { return plan.nodes.size() > 1 && spec.max_failures.value_or(1) > 0; }
  std::uint64_t first_step = 0;
  // A later plan of a job that runs, one that is resumed, or one with weights to begin from
  // (continue_at in amend.hpp, record.hpp): shards and lanes begin with what the coordinator sends
  // them, instead of the fillers. It has that from `before`, which lies where its role will be, and
  // lets go of the tensors there.
  bool continued = false;
  std::shared_ptr<handover> before;
};

// Opens the data (unless they are open), builds graph and plan. Nodes: one named "local" when
// embedded.
std::variant<std::shared_ptr<prepared_job>, diagnostics> prepare_job(job_spec spec, std::shared_ptr<const tables> all,
                                                                     const std::vector<node_spec>& nodes,
                                                                     std::shared_ptr<const source> opened = {});

// The role value `r` of the plan, ready to be hosted. `incarnation` > 0: again, after it or its
// node was restarted. It must be sent `start` then: a worker's half asks the shards where to go on,
// its loader waits for the answer, a stage tells its neighbours.
std::unique_ptr<role> make_role(const std::shared_ptr<const prepared_job>& j, role_id r, std::uint32_t incarnation = 0);

// The rate of a step as the job has it: its schedule, with warm-up, times what the batch adds to
// it.
std::unique_ptr<schedule> make_rate(const job_spec& s, const tables& all);

// The tensors that it has been given to begin with, by name.
const std::vector<std::pair<std::string, tensor>>& given(const prepared_job& j);

// Initial weights by name, in layer order, as the shards will have them.
std::vector<std::pair<std::string, tensor>> initial_weights(const prepared_job& j, device& d);

// Checks that `named` has every parameter with its shape; else a message naming the tensor and both
// shapes.
std::string check_weights(const model_graph& g, const std::vector<std::pair<std::string, tensor>>& named);

}  // namespace troupe
