// Replaces the plan of a running job by its next plan (replanning.hpp, docs/moving.md).
//
// Invariants: before `draining` a refusal changes nothing. From `draining` on the failure of a node
// of the new plan is a failure of the job (node_failures.hpp). So is the failure of a node of the
// old plan at any time, unless that node has only its roles left to end.
#pragma once

#include <string>

#include "runtime/cluster/controller/controlled_job.hpp"

namespace troupe::control {

// A user, a node that leaves or one that has rejoined wants another plan (amends() in
// runtime/job/amend.hpp). The answer is the event `moved` or `refused`.
void wish(job_call& c, const command& what);
void on_plan_found(job_call& c, const plan_found& f);
// The coordinator role has handed over at this step.
void on_handover(job_call& c, std::uint64_t step);
void take(job_call& c, const std::string& from, const revised& m);
void take(job_call& c, const std::string& from, const swapped& m);
void watch_successor(job_call& c);  // at every tick

// All nodes of both plans run the next one.
void swap_done(job_call& c);
// The running plan has the change: announces it. `ms`: for which training stood still.
void change_made(job_call& c, const plan_change& change, std::uint64_t step, double ms);
// Drops the next plan.
void drop_successor(job_call& c);
// A node failed or leaves. Returns true if only the next plan uses the node; the failure is handled
// then.
bool lost_to_successor(job_call& c, const std::string& node, const std::string& why);
// Announces that a change is refused. `id`: of the command.
void say_refused(job_call& c, const std::string& why, command_id id);

}  // namespace troupe::control
