// job_executor: files that jobs start from. They arrive piece by piece (state_store.hpp), and are
// read when the job is checked, when its roles are made, and in recovery before the first
// checkpoint. They are removed when the job is over. A resumed job starts like the next plan of a
// running one: with a handover, which is made from the file.
#include "runtime/cluster/admission.hpp"
#include "runtime/job/copy.hpp"
#include "runtime/node/executor/file_states.hpp"
#include "runtime/node/executor/job_executor.hpp"

namespace troupe::control {

job_executor::job_executor(place at)
    : at_(std::move(at)),
      plans_(at_.plans ? at_.plans : std::make_shared<node_preparer>(at_.jobs, at_.runs != nullptr)),
      states_(at_.states ? at_.states : std::make_shared<file_states>(at_.jobs, at_.before)) {
  for (const auto& [id, j] : at_.taken_up) {
    auto& u = uploads_[id];
    u.what = begins_with(j);
    u.since = going_back{j.settings, j.paused, 0};
    if (!j.kept.empty()) states_->goes_on(id, j.kept);
  }
}

expected<void> job_executor::keep(const keep_piece& what) {
  auto& given = uploads_[what.job];
  if (what.offset == 0) given.what = what.given;
  return states_->keep(what);
}

void job_executor::drop(std::uint32_t job) {
  uploads_.erase(job);
  states_->drop(job);
}

// Called on every node. The node of the coordinator role needs the file; for the others the step
// suffices. Returns `j` as it begins.
expected<std::shared_ptr<const prepared_job>> job_executor::continued(std::shared_ptr<const prepared_job> j, const prepare& what) {
  if (!what.continued) return j;
  auto at = uploads_.find(what.job);
  const bool coordinates = j->plan.nodes[j->plan.roles.front().node].name == at_.jobs.self;
  if (at == uploads_.end() && coordinates && states_->has_given(what.job)) {  // found by the checker
    at = uploads_.try_emplace(what.job).first;
    at->second.what = {given_file::checkpoint, given_path(at_.jobs, what.job).string(), 0};
  }
  if (at == uploads_.end() && coordinates) return unexpected("the file that the job starts from is missing");
  if (at == uploads_.end()) return plans_->at_step(j, what.from);
  at->second.overrides = what.what.overrides;
  auto own = copy_of(*j);
  const auto begun = states_->begin(*own, what.job, at->second.what, what.what.overrides);
  if (!begun) return unexpected(begun.error().to_string());
  if (at->second.since) {
    take_along(*own->before, *at->second.since);
    own->before->notes.clear();  // an earlier incarnation of this daemon has reported them
  }
  if (own->spec.checkpoint.resume == "auto" && at->second.what.kind == given_file::checkpoint)
    own->before->notes.push_back("continues from the checkpoint of step " + std::to_string(own->first_step));
  if (own->first_step != what.from) return unexpected("the file that the job starts from has changed");
  if (at_.runs) {
    const auto restored = at_.taken_up.find(what.job);  // it may begin from a checkpoint of its own
    const bool another = restored == at_.taken_up.end() || restored->second.kept.empty();
    at_.runs->continue_best(number_of(what.job), what.owner, *own, another);
  }
  return own;
}

}  // namespace troupe::control
