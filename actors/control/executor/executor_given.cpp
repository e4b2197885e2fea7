// job_executor: files that jobs start from. They are written piece by piece below the node's state
// folder, and read when the job is checked, when its roles are made, and in recovery before the
// first checkpoint. They are removed when the job is over. A resumed job starts like the next plan
// of a running one: with a handover, which is made from the file.
#include <cerrno>
#include <cstring>

#include "actors/control/executor/job_executor.hpp"
#include "runtime/job/record.hpp"

namespace troupe::control {
namespace {

namespace fs = std::filesystem;

std::string last_error() { return errno != 0 ? std::strerror(errno) : "unknown error"; }

}  // namespace

job_executor::job_executor(place at) : at_(std::move(at)) {
  for (const auto& [id, j] : at_.taken_up) {
    auto& u = uploads_[id];
    u.path = given_path(at_.jobs, id);
    u.what = begins_with(j);
    u.since = going_back{j.settings, j.paused, 0};
  }
}

expected<void> job_executor::keep(const keep_piece& what) {
  auto& u = uploads_[what.job];
  errno = 0;
  if (what.offset == 0) {
    const auto folder = at_.jobs.state / "given";
    std::error_code ec;
    fs::create_directories(folder, ec);
    if (ec) return unexpected(error(ec.message()).in(folder.string()));
    u.path = given_path(at_.jobs, what.job);
    u.what = what.given;
    u.out.open(u.path, std::ios::binary | std::ios::trunc);
  }
  if (u.out) u.out.write(what.bytes.data(), static_cast<std::streamsize>(what.bytes.size()));
  if (u.out) u.out.flush();
  if (!u.out) return unexpected(error(last_error()).in(u.path.string()));
  return {};
}

void job_executor::drop(std::uint32_t job) {
  uploads_.erase(job);
  std::error_code ignored;
  fs::remove(given_path(at_.jobs, job), ignored);
}

// Called on every node. The node of the coordinator role needs the file; for the others the step
// suffices.
expected<void> job_executor::continue_as(prepared_job& j, const prepare& what) {
  if (!what.continued) return {};
  auto at = uploads_.find(what.job);
  const bool coordinates = j.plan.nodes[j.plan.roles.front().node].name == at_.jobs.self;
  std::error_code none;
  if (at == uploads_.end() && coordinates && fs::exists(given_path(at_.jobs, what.job), none)) {  // found by the checker
    at = uploads_.try_emplace(what.job).first;
    at->second.path = given_path(at_.jobs, what.job);
    at->second.what = {given_file::checkpoint, at->second.path.string(), 0};
  }
  if (at == uploads_.end() && coordinates) return unexpected("the file that the job starts from is missing");
  if (at == uploads_.end()) {
    continue_at(j, what.from);
    return {};
  }
  at->second.out.close();
  at->second.overrides = what.what.overrides;
  const auto begun = begin_with_given(at_.jobs, j, what.job, at->second.what, what.what.overrides);
  if (!begun) return unexpected(begun.error().to_string());
  if (at->second.since) {
    take_along(*j.before, *at->second.since);
    j.before->notes.clear();  // an earlier incarnation of this daemon has reported them
  }
  if (j.spec.checkpoint.resume == "auto" && at->second.what.kind == given_file::checkpoint)
    j.before->notes.push_back("continues from the checkpoint of step " + std::to_string(j.first_step));
  if (j.first_step != what.from) return unexpected("the file that the job starts from has changed");
  return {};
}

}  // namespace troupe::control
