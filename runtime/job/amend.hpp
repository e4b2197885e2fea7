// Amendments: changes of a running job's placement, nodes or mode. The job's next plan is made of
// the job file and the amendments, so every node computes the same plan and no plan is sent.
//
//   move LAYER NODE  Moves the whole layer to one node or NODE/DEVICE; LAYER.K: its part K. Layers
//                    on the nodes of the workers stay there. Placed layers without a place in the
//                    file follow their input.
//   drain NODE       The node gets no role. Workers, shards, tester and data server are dealt over
//                    the other nodes; a layer's part that is placed there goes to the next node
//                    with workers that has no part of the layer.
//   add-node NODE    The job may use the node again.
//   balance N N ...  Sets the packets of each worker, in jobs with `fraction = "auto"`.
//
// The host adds `lose`, with the names of the nodes, after node failures: a drain of all of them at
// once that does not wait for a boundary.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/job/job.hpp"
#include "runtime/messages/command.hpp"

namespace troupe {

// Replaces the `place` of a layer in the file.
struct layer_word {
  std::string layer;
  std::vector<std::string> place;  // empty: on the nodes of the workers
  bool whole = false;              // one place: the file's fractions do not apply
  friend bool operator==(const layer_word&, const layer_word&) = default;
};

struct amendments {
  std::vector<layer_word> layers;  // at most one per layer
  std::set<std::string> without;   // drained and lost nodes
  std::string mode;                // the mode in use; empty: the job file's
  named_texts mode_options;
  // Packets of each worker; empty, or of another number of workers: by the speed of their devices.
  std::vector<std::uint32_t> packets = {};
  friend bool operator==(const amendments&, const amendments&) = default;
};

// Returns true for move, drain, add-node and balance: the commands of users that change the plan.
bool amends(const command& c);
lose_command loss_of(const std::set<std::string>& nodes);
// Returns the text for users when the command is done, e.g. "moved fc6 to n2".
std::string done_text(const command& c);

// Adds the command `wish` to the amendments `so_far`, of which the running job `now` was made.
// Returns the new amendments, or an error if the command cannot be executed.
expected<amendments> amended(const prepared_job& now, const amendments& so_far, const command& wish);

// Prepares the job with these amendments: a new plan on the same data. Errors as of prepare_job.
expected<std::shared_ptr<prepared_job>, diagnostics> prepare_again(const std::shared_ptr<const prepared_job>& original,
                                                                   const amendments& a);

// Makes `j` continue after a plan that ended at this step. `before` and `named` (weights and states
// of the rule) are needed only on the node of the coordinator's role, which sends the shards their
// blocks.
void continue_at(prepared_job& j, std::uint64_t step, const std::shared_ptr<const handover>& before = {},
                 std::vector<std::pair<std::string, tensor>> named = {});

// Returns the job's mode with its options, in the coordinator's form.
mode_choice mode_of(const prepared_job& j);
std::string mode_text(const prepared_job& j);  // "ssp staleness=3"
void set_mode(amendments& a, const mode_choice& m);

}  // namespace troupe
