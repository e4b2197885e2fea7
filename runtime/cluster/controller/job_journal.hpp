// What the controller writes into the journal (journal.hpp) about a job, and the jobs that it
// restores from it. A job that was queued is queued again in its place. A job that ran starts from
// its newest checkpoint, like a resumed job. Clients that followed it request it by number.
#pragma once

#include "runtime/cluster/controller/controlled_job.hpp"
#include "runtime/cluster/controller/journal.hpp"

namespace troupe::control {

void note_queued(job_call& c);
void note_begun(job_call& c);
void note_kept(job_call& c, const std::string& file);
void note_settings(job_call& c);  // set and pause by users
// The changes of the plan by users. Nodes that are excluded because they failed are not among them.
void note_changes(job_call& c);
void note_over(job_call& c);

// Set `j` up as it was. It is over, or has still to be checked again.
void restore(controlled_job& j, const finished_job& f);
void restore(controlled_job& j, const unfinished_job& u);
// Returns true if a restored job must not start with the plan of its file: users have changed the
// plan, or have changed settings and there is no file that could carry them. The first plan is then
// made like the one after the failure of all nodes.
bool begins_changed(const controlled_job& j);

}  // namespace troupe::control
