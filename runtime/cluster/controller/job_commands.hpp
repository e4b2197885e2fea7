// Commands to one job.
#pragma once

#include <string>

#include "runtime/base/result.hpp"
#include "runtime/cluster/controller/controlled_job.hpp"

namespace troupe::control {

// Gives the command to the job. An error is its outcome; otherwise an event will be.
expected<void> give(job_call& c, const command& what);
// Tells the coordinator role the commands that wait for it, unless that role may be replaced before
// it carries them out.
void tell_waiting(job_call& c);
// Ends the job in any phase: no node is asked to reach a step boundary, and nothing is stored.
expected<void> kill(job_call& c, const command& what, const std::string& by);
// Stops the job at the next boundary, with a checkpoint. A job that a user has stopped is not
// preempted.
void preempt(job_call& c, const std::string& why);
// The coordinator's daemon shuts down: the job continues when it runs again.
void drain(job_call& c);

}  // namespace troupe::control
