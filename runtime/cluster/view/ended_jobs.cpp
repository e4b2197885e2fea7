#include "runtime/cluster/view/ended_jobs.hpp"

#include <algorithm>

namespace troupe {
namespace {

// Null: the view does not have the job.
const repl_job* job_of(const repl_view& v, const repl_role& r) {
  if (v.cluster.empty() && v.jobs.size() == 1) return &v.jobs.front();
  const auto at = std::find_if(v.jobs.begin(), v.jobs.end(), [&](const auto& j) { return j.id == (r.what.job & 0xffff); });
  return at == v.jobs.end() ? nullptr : &*at;
}

}  // namespace

void settle_ended_jobs(repl_view& v) {
  for (auto& r : v.roles) {
    const auto* j = job_of(v, r);
    if (!j || !j->over()) continue;
    auto& s = r.what.status;
    s.queued = s.in_flight = s.credit = 0;
    if (j->state != job_state::failed) s.wait(wait_kind::none, {});
  }
}

}  // namespace troupe
