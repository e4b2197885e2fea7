// Checks of the topology that several stock modes share. All throw option_error.
#pragma once

#include "runtime/sync/mode.hpp"

namespace troupe {

// Requires one worker group and one server group.
void one_group(const job_plan& p, const char* mode);
// Requires one server group, which all workers share however they are grouped, and no reducer
// roles.
void one_centre(const job_plan& p, const char* mode);
// Refuses reducer roles between workers and shards: they carry one gradient per step to one place,
// and have no mode epochs.
void no_tree(const job_plan& p, const char* mode);
// Refuses replicas of shards: in such a mode the shards' blocks are not the current weights.
void no_replicas(const job_plan& p, const char* mode);

}  // namespace troupe
