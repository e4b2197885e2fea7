#include "runtime/node/executor/job_preparer.hpp"

#include "runtime/job/copy.hpp"
#include "runtime/node/runs/run_recorder.hpp"

namespace troupe::control {
namespace {

expected<made_plan, diagnostics> hashed(expected<std::shared_ptr<prepared_job>, diagnostics> j) {
  if (!j) return unexpected(std::move(j).error());
  auto hash = plan_hash((*j)->plan);
  return made_plan{*std::move(j), std::move(hash)};
}

}  // namespace

std::shared_ptr<const prepared_job> job_preparer::at_step(const std::shared_ptr<const prepared_job>& j, std::uint64_t step) {
  auto own = copy_of(*j);
  continue_at(*own, step);
  return own;
}

expected<made_plan, diagnostics> node_preparer::first(std::uint32_t job, const job_text& what) {
  auto j = read_job(at_, what);
  if (!j) return unexpected(std::move(j).error());
  (*j)->id = job;
  if (run_folders_) prepare_for_run_folder(**j);
  return hashed(std::move(j));
}

expected<made_plan, diagnostics> node_preparer::again(const std::shared_ptr<const prepared_job>& original, const amendments& a) {
  return hashed(prepare_again(original, a));
}

}  // namespace troupe::control
