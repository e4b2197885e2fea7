// The stock modes, for table.cpp, and checks that several of them make of the topology. All throw option_error.
#pragma once

#include "runtime/sync/mode.hpp"

namespace troupe {

sync_mode bsp_mode();
sync_mode ssp_mode();
sync_mode downpour_mode();
sync_mode hogwild_mode();
sync_mode easgd_mode();
sync_mode eamsgd_mode();
sync_mode group_sync_mode();
sync_mode sandblaster_mode();
sync_mode gossip_mode();

// All workers are one group and share one server group.
void one_group(const job_plan& p, const char* mode);
// All workers, however grouped, share one server group.
void one_centre(const job_plan& p, const char* mode);
// Refuses reducers between workers and shards for this mode: they carry one gradient a step to one place, and know of no eras.
void no_tree(const job_plan& p, const char* mode);

}  // namespace troupe
