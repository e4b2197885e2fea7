// Events of a running job: what each changes, who gets it, and the watch over tasks and progress
// from which the controller makes events itself.
#pragma once

#include "runtime/cluster/controller/controlled_job.hpp"

namespace troupe::control {

// An event of the coordinator role or of the controller. It waits for stores that were begun before
// it. Ignored unless the job runs.
void on_event(job_call& c, const job_event& e);
// A store of the job has ended: handles the events that waited for it.
void on_stored(job_call& c, const stored& s);
// Sends an event to the followers and adds it to the history.
void say(job_call& c, job_event e);
// At every tick: announces overlong tasks and stragglers, and fails the job if one hangs or nothing
// happens.
void watch_progress(job_call& c);

}  // namespace troupe::control
