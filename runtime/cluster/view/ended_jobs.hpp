// Roles of jobs that are over. Hosts keep the last values of roles for a moment, and nodes report
// them for a moment, after the job's last event.
#pragma once

#include "runtime/cluster/view/view.hpp"

namespace troupe {

// Removes from the roles of jobs that are over what no longer holds: queued messages, packets in
// flight and credit. Also what they wait for, unless the job failed: then it says where the job
// was. Times and counts stay. In a view without a cluster that has one job, all roles are its own.
void settle_ended_jobs(repl_view& v);

}  // namespace troupe
