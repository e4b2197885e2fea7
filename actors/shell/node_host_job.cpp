// Spawns the roles of a prepared job. Separate from node_host.cpp, so that callers that construct
// their own roles need not link the job library.
#include <algorithm>

#include "actors/shell/node_host.hpp"
#include "runtime/job/job.hpp"

namespace troupe {

void node_host::spawn(std::uint32_t job_id, const std::shared_ptr<const prepared_job>& j, std::uint32_t me,
                      std::uint32_t plan_generation) {
  std::vector<seat> seats;
  std::vector<std::uint32_t> node_of;
  // Roles give way only in lockstep modes on one node: otherwise other roles would wait for the
  // postponed tasks.
  const bool alone = std::all_of(j->plan.roles.begin(), j->plan.roles.end(), [&](const role_plan& r) { return r.node == me; });
  const bool patient = alone && j->all->modes.find(j->spec.train.sync.kind)->lockstep;
  for (const role_plan& r : j->plan.roles) {
    node_of.push_back(r.node);
    if (r.node != me) continue;
    seat s;
    s.id = r.id;
    s.name = r.name;
    s.kind = r.traits().name;
    s.device = r.device;
    s.maths = j->spec.maths;
    s.slots = r.tester ? 1 : r.slots;
    s.value = make_role(j, r.id);
    s.gives_way = patient && r.does().gives_way;
    seats.push_back(std::move(s));
  }
  spawn(job_id, std::move(seats), std::move(node_of), me, plan_generation, j);
}

}  // namespace troupe
