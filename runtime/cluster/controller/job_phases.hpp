// The phases of one job after it was queued (job_run.hpp): it gathers its nodes, is prepared on
// them, runs, and is ended on them.
//
// Invariants: a job gets exactly one `done`, `preempted` or `error` event, its last; it is sent
// when all nodes have ended the job and its weights are hashed and written. Every wait has a
// deadline.
#pragma once

#include <string>

#include "runtime/cluster/controller/controlled_job.hpp"

namespace troupe::control {

// The queued job is the next one. Continues when the nodes of its plan have joined.
void begin_gathering(job_call& c);
void gather(job_call& c);
// Its roles begin, or begin after a recovery.
void begin_running(job_call& c);
void fail(job_call& c, const std::string& where, const std::string& text);
// Ends the job on all nodes. It has its last event.
void begin_ending(job_call& c);
// Sends the last event if every node has ended the job and everything is stored.
void finish(job_call& c);
void watch_deadline(job_call& c);  // at every tick

// A node of the cluster has joined, was lost, or shuts down.
void node_joined(job_call& c, const std::string& node);
void node_lost(job_call& c, const std::string& node, const std::string& reason);
void node_leaves(job_call& c, const std::string& node);
// The task on a node that was considered hung has ended.
void node_recovered(job_call& c);

// Messages of nodes.
void take(job_call& c, const std::string& from, const prepared& m);
void take(job_call& c, const std::string& from, const trouble& m);
void take(job_call& c, const std::string& from, const ended& m);

}  // namespace troupe::control
