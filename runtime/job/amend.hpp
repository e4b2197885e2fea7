// What people change of a job while it runs: where layers are, which nodes it may use, in which
// mode it is. A job's next plan is the plan of the job file with these words added, so that every
// node makes the same plan of them and no plan travels.
//
//   move LAYER NODE     all of the layer to one node; LAYER.K: its part K. Layers beside the workers stay there; placed layers that
//                       the file leaves open go on following their input
//   drain NODE          the node gets no role: workers, shards, tester and data server are dealt over the others, and a part of a
//                       layer that is placed there goes to the next node with workers that has no part of it
//   add-node NODE       what `drain` took away is given back
//
// And by the host, when nodes are gone without a word: `lose`, with their names, is a drain of all
// of them at once that cannot wait.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/job/job.hpp"
#include "runtime/messages/control.hpp"

namespace troupe {

// Takes the place of what the file says of the layer's place.
struct layer_word {
  std::string layer;
  std::vector<std::string> place;  // empty: beside the workers
  bool whole = false;              // one place: fractions of the file are void
  friend bool operator==(const layer_word&, const layer_word&) = default;
};

struct amendments {
  std::vector<layer_word> layers;  // at most one a layer
  std::set<std::string> without;   // nodes that have been drained
  std::string mode;                // in use; empty: the job file's
  std::vector<std::pair<std::string, std::string>> mode_options;
  friend bool operator==(const amendments&, const amendments&) = default;
};

// `move` (key: layer; options: {"node", NAME}), `drain` and `add-node` (key: node).
bool amends(const command& c);
// `lose` (options: {"node", NAME} each; none: all nodes stay, only what they do begins anew).
command loss_of(const std::set<std::string>& nodes);
// "moved fc6 to n2": for people, when it is done.
std::string done_text(const command& c);

// The job that runs (`now`, made of `so_far`) as a person wants it; or why that cannot be.
std::variant<amendments, std::string> amended(const prepared_job& now, const amendments& so_far, const command& wish);

// The job with these words, on the same data: another plan of it. Errors as of prepare_job.
std::variant<std::shared_ptr<prepared_job>, diagnostics> prepare_again(const std::shared_ptr<const prepared_job>& original,
                                                                       const amendments& a);

// Makes `j` what follows after a plan that ended at this step. `before` and `named` (weights and
// states of the rule): where the coordinator's role will be; elsewhere nothing, the shards are sent
// theirs.
void continue_at(prepared_job& j, std::uint64_t step, const std::shared_ptr<const handover>& before = {},
                 std::vector<std::pair<std::string, tensor>> named = {});

// "ssp staleness=3", as the coordinator says it of the mode in use; and what it stands for.
std::string mode_text(const prepared_job& j);
void set_mode(amendments& a, const std::string& text);

}  // namespace troupe
