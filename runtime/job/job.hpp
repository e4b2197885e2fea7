// A job prepared on one node: specification, opened data, graph and plan, from which any role of
// the plan can be made. Every node makes the same job from the same job_spec and node list, so only
// the specification is sent.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/data/augment.hpp"
#include "runtime/job/tables.hpp"
#include "runtime/model/graph.hpp"
#include "runtime/plan/plan.hpp"
#include "runtime/role.hpp"
#include "runtime/spec/job_spec.hpp"

namespace troupe {

// size: all that a host needs to make the roles of a job
struct prepared_job {
  std::uint32_t id = 0;  // number of the job, in every message header; set before make_role
  job_spec spec;
  topology_spec asked;           // topology of the file; the plan may have fewer workers (elastic.hpp)
  std::string filed_mode;        // mode_text() of the file's mode; the mode in use may be another
  std::vector<node_spec> nodes;  // nodes that the plan was made for
  std::shared_ptr<const tables> all;
  std::shared_ptr<const source> data;
  std::shared_ptr<const augmentation> augment;  // null: none
  model_graph graph;
  job_plan plan;
  std::uint64_t steps_per_epoch = 0;
  std::uint64_t last_step = 0;  // maximum number of steps; 0: no limit
  // Returns true if the job may continue from the state of its shards after node failures
  // (coordinator/surviving_state.hpp).
  bool outlives_nodes() const { return plan.nodes.size() > 1 && spec.max_failures.value_or(1) > 0; }
  // True if the host stores the weights of the best evaluation (store_effect "best").
  bool keeps_best = false;
  // Steps between two histograms of all weights and gradients (events "histogram"); 0: only on
  // request. Used by the coordinator, so only its node's value counts; likewise keeps_best.
  std::uint64_t histograms_every = 0;
  std::uint64_t first_step = 0;
  // True for a later plan of a running job, a resumed job, and a job with initial weights
  // (continue_at in amend.hpp, record.hpp): the coordinator sends shards and stages their initial
  // state, which replaces the fillers. It reads the state from `before`, which is set only on its
  // own node, and releases the tensors there.
  bool continued = false;
  std::shared_ptr<handover> before;
  // The file to which this node's roles log their messages while they run
  // (runtime/replay/log_stream.hpp); empty: none.
  std::string messages_file;
};

// Opens the data (unless `opened` is given) and makes graph and plan. An embedded job has one node,
// "local".
expected<std::shared_ptr<prepared_job>, diagnostics> prepare_job(job_spec spec, std::shared_ptr<const tables> all,
                                                                 const std::vector<node_spec>& nodes,
                                                                 std::shared_ptr<const source> opened = {});

// Makes role `r` of the plan, ready to be hosted.
std::unique_ptr<role> make_role(const std::shared_ptr<const prepared_job>& j, role_id r);

// Returns the job's learning rate schedule with warm-up, scaled for the batch size (lr_scale). Its
// lr() throws std::runtime_error instead of returning a rate that is not finite or negative.
std::unique_ptr<schedule> make_rate(const job_spec& s, const tables& all);

// Returns the tensors with which the job begins, by name; empty if it begins with the fillers.
const std::vector<std::pair<std::string, tensor>>& given(const prepared_job& j);

// Returns the initial weights of the shards by name, in layer order.
std::vector<std::pair<std::string, tensor>> initial_weights(const prepared_job& j, device& d);

// Checks that `named` has every parameter with its shape. The error names the tensor and both
// shapes.
expected<void> check_weights(const model_graph& g, const std::vector<std::pair<std::string, tensor>>& named);

}  // namespace troupe
