// The number of nodes that a job uses, and of its workers on them: [job] min_nodes, max_nodes,
// spares. In lockstep modes the weights do not depend on it, because they depend on packets, not on
// workers.
//
//   max_nodes   the job uses at most this many nodes: the first ones, in the order of the cluster
//               file, that are available and have a role besides "coordinator"
//   min_nodes   the job ends if it has fewer nodes
//   spares      number of nodes that the job leaves unused; a spare replaces a lost node
//
// A job with min_nodes or max_nodes is elastic: the numbers of workers in its file apply to
// max_nodes nodes; with fewer nodes there are proportionally fewer workers, at least one. With only
// spares the number of workers is constant. Pure: every node gets the same result. Errors:
// diagnostics.
#pragma once

#include <vector>

#include "runtime/base/diagnostic.hpp"
#include "runtime/spec/job_spec.hpp"

namespace troupe {

// Removes the roles of unused nodes, and sets the numbers of workers in `spec`. Call it once per
// plan, with the file's numbers of workers and after fix_nodes().
diagnostics fit_to_nodes(job_spec& spec, std::vector<node_spec>& nodes);
// Sets max_nodes from the number of nodes and the spares, if the file does not. Takes effect once
// per job; `nodes` are all nodes of the cluster.
void fix_nodes(job_spec& spec, const std::vector<node_spec>& nodes);

}  // namespace troupe
