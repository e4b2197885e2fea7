// Checks that several of the stock modes make of the topology. All throw option_error.
#pragma once

#include "runtime/sync/mode.hpp"

namespace troupe {

// All workers are one group and share one server group.
void one_group(const job_plan& p, const char* mode);
// All workers, however grouped, share one server group.
void one_centre(const job_plan& p, const char* mode);
// Refuses reducers between workers and shards for this mode: they carry one gradient a step to one
// place, and know of no eras.
void no_tree(const job_plan& p, const char* mode);
// Refuses replicas of shards for this mode: what they copy is not what the mode's weights are.
void no_replicas(const job_plan& p, const char* mode);

}  // namespace troupe
