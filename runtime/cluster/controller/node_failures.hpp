// Nodes of a running job fail, leave and rejoin (docs/failures.md).
//
//   failed     the running plan cannot reach a boundary, because roles with its packets are gone.
//              The next plan, without those nodes, starts from the state of the shards that survive
//              (runtime/coordinator/surviving_state.hpp): checking -> preparing -> draining ->
//              swapping, as in plan_changes.hpp. If they do not have all state, or do not
//              report it within 10 s, it starts from the last saved state: checking -> preparing ->
//              swapping. The same applies to nodes that are absent when the job is to start
//   leaving    a node that shuts down is drained as by a user's command; it may exit when its roles
//              are on other nodes
//   hung       one of its tasks does not end: treated as failed, though its daemon runs
//   suspended  this daemon was stopped for so long that nodes closed their connections. They retain
//              their roles for a while (member.hpp) and join again, and the job continues on the
//              same nodes from what they have. Nodes that have not joined within 5 s have failed
//   rejoined   a node that failed or left and joins again is added at the next step boundary
//
// Invariants: a failure while a recovery plan is prepared restarts the recovery and is not counted
// again. A failure while nodes swap waits until the others have swapped; that plan never begins. A
// job that cannot continue fails with the node failure as its reason.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "runtime/cluster/controller/controlled_job.hpp"

namespace troupe::control {

// A node of the job, or a connection between two, has failed. `node`: empty if only connections
// have. `named`: the nodes that `why` names, if not `node`.
void lose(job_call& c, const std::string& node, const std::string& why, std::set<std::string> named = {});
// A task on this node does not end, and its thread cannot be interrupted. This job and later ones
// run without the node until the task ends or its daemon is restarted. The node's job executor,
// told to end the roles, waits for the task; the watchdog of the service manager then restarts the
// daemon.
void lose_hung(job_call& c, const std::string& node, const std::string& why);
// A role of a working node has failed: all roles are restarted, as if the connections between them
// had failed. If a role fails again before the job has made a further step, the cause persists and
// the job fails. Returns true if the failure is handled here.
bool restart_role(job_call& c, const std::string& where, const role_failure& what, const std::string& text);
// `by` cannot reach `node`. Waits for a grace time, since the end of `node` itself is usually
// reported within it. Returns false if the job cannot survive that failure.
bool unreachable(job_call& c, const std::string& node, const std::string& by, const std::string& why);
// A connection between two running nodes has failed, with the messages in flight. All roles are
// restarted; if the connection fails again during that recovery, one of the two nodes is left out.
void watch_suspects(job_call& c);

// --- recovery
// `live`: surviving state may be used.
void begin_recovery(job_call& c, failure_cause cause, bool live);
// The recovery under way is replaced by a new one, which counts as the same.
void begin_recovery_again(job_call& c, bool live, const failure_cause* further = nullptr);
// The plan without the failed nodes is ready on all its nodes.
void ask_for_surviving_state(job_call& c);
// The surviving nodes lack state that the job needs: restarts it from the last saved state.
void nothing_is_left(job_call& c, const std::string& why);
// The recovery plan `n` runs.
void went_back(job_call& c, const successor& n);

// --- nodes that leave or return
// Drains nodes that shut down and adds nodes that have rejoined, one after the other, with one plan
// each.
void take_back(job_call& c);
// The plan for a node that shuts down or has rejoined was refused.
void refused(job_call& c, const command& wish);
// A node of the job shuts down. Returns false if the job has to stop for it.
bool take_leave(job_call& c, const std::string& node);
// The connection with a node of the running job has ended. Returns true if the probable cause is
// that this daemon was suspended, so that the node may still have its roles. A next plan is
// dropped, or broken while nodes swap: the recovery that follows makes another.
bool comes_back(job_call& c, const std::string& node);
void watch_rejoining(job_call& c);

}  // namespace troupe::control
