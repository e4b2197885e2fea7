// The view that the REPL shows: nodes, jobs and roles as last reported, and the steps at risk if a
// node failed now.
#pragma once

#include "runtime/cluster/controller/controlled_job.hpp"

namespace troupe::control {

void fill(repl_view& v, const controller_state& state, const cluster_spec& cluster, instant now);

}  // namespace troupe::control
