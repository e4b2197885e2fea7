// How many nodes a job uses, and how many workers it has on them: [job] min_nodes, max_nodes,
// spares. Weights do not depend on it in modes in lockstep: packets decide, and not workers.
//
//   max_nodes   the first so many, in the order of the cluster file, of those that lend themselves to it and are there
//   min_nodes   a job with fewer ends
//   spares      all nodes but so many; a spare takes the place of one that is lost
//
// A job that says min_nodes or max_nodes is elastic: the numbers of workers in its file are for
// max_nodes, with fewer there are fewer in proportion, one at least. With spares alone the number
// of workers stays. Pure; every node finds the same. Errors: diagnostics.
#pragma once

#include <vector>

#include "runtime/base/diagnostic.hpp"
#include "runtime/spec/job_spec.hpp"

namespace troupe {

// Takes the roles of nodes that are not used away, and sets the numbers of workers in `spec`. To be
// called once per plan: `spec` is as the file has it, but for what fixed_nodes() has made of it.
diagnostics fit_to_nodes(job_spec& spec, std::vector<node_spec>& nodes);
// Once per job, with all nodes of the cluster: what the file leaves open about their number.
void fix_nodes(job_spec& spec, const std::vector<node_spec>& nodes);

}  // namespace troupe
