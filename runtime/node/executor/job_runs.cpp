#include "runtime/node/executor/job_runs.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include "runtime/base/result.hpp"
#include "runtime/coordinator/handover.hpp"
#include "runtime/node/config/resolved_job.hpp"
#include "runtime/node/executor/job_folders.hpp"
#include "runtime/node/runs/run_info.hpp"
#include "runtime/record/job_owner.hpp"

namespace troupe::control {
namespace {

namespace fs = std::filesystem;

expected<std::unique_ptr<run_recorder>, record_error> recorder_of(const fs::path& runs, std::uint32_t number,
                                                                  const std::string& owner,
                                                                  const std::shared_ptr<const prepared_job>& j,
                                                                  const std::string& numerics, const lock_patience& patience) {
  if (const auto folder = folder_of_run(runs, number); !folder.empty()) {
    if (const auto its = owner_of_folder(folder); its != owner)
      return unexpected(
          record_error{folder.string(), {}, "it is the run of another job, of " + (its.empty() ? "an unknown owner" : its)});
    auto read = read_run_info(folder);
    if (!read) return unexpected(std::move(read).error());
    return run_recorder::resume(folder, j, *std::move(read), patience);
  }
  auto info = facts_of_run(*j, numerics);
  info.number = number;
  auto made = run_recorder::create(runs, j, std::move(info), resolved_job_text(*j), patience);
  if (!made) return made;
  if (auto ok = set_owner((*made)->folder(), owner); !ok) return unexpected(std::move(ok).error());
  return made;
}

}  // namespace

fs::path folder_of_run(const fs::path& runs, std::uint32_t number) {
  const auto head = std::to_string(number) + "-";
  std::error_code ec;
  for (const auto& f : run_folders(runs))
    if (f.filename().string().starts_with(head) && fs::exists(run_info_file(f), ec)) return f;
  return {};
}

job_runs::job_runs(const fs::path& state, std::function<void(const std::string&)> log)
    : runs_(state / "runs"), log_(std::move(log)) {}

std::shared_ptr<run_recorder> job_runs::of(std::uint32_t number) const {
  std::lock_guard guard(lock_);
  return number == number_ ? current_ : nullptr;
}

void job_runs::continue_best(std::uint32_t number, const std::string& owner, prepared_job& j, bool another) const {
  if (!j.before) return;
  const auto folder = folder_of_run(runs_, number);
  if (folder.empty()) {
    if (another) j.before->best.reset();
    return;
  }
  const auto read = read_run_info(folder);
  if (read && owner_of_folder(folder) == owner) troupe::continue_best(folder, *read, j);
}

void job_runs::begin(std::uint32_t number, const std::string& owner, std::shared_ptr<const prepared_job> j,
                     const std::string& numerics) {
  auto made = recorder_of(runs_, number, owner, j, numerics, {log_});
  if (!made) log_("job " + std::to_string(number) + " has no run folder: " + made.error().to_string());
  std::lock_guard guard(lock_);
  number_ = number;
  current_ = made ? *std::move(made) : nullptr;
}

void job_runs::event(std::uint32_t number, const job_event& e) {
  if (const auto r = of(number)) r->offer(e.event);
}

void job_runs::store(std::uint32_t number, const store_effect& s) {
  if (const auto r = of(number)) r->offer(s);
}

void job_runs::end(std::uint32_t number, const job_event& last, const fs::path& weights) {
  const auto r = of(number);
  if (!r) return;
  {
    std::lock_guard guard(lock_);
    current_.reset();
  }
  const auto& e = last.event;
  const auto* ended = e.as<done_event>();
  const auto* bad = e.as<error_event>();
  const bool done = ended && !ended->stopped();
  run_recorder::end how{done ? "done" : bad ? "failed" : "stopped", e.step, {}, {}, {}};
  if (bad) how.error = bad->message;
  if (ended) how.weights_sha256 = ended->weights_sha256;
  if (done && !weights.empty()) {
    for (const char* name : {"last.safetensors", "best.safetensors"}) {
      std::error_code ec;
      if (fs::exists(r->folder() / name, ec)) continue;  // best: of an evaluation
      fs::create_hard_link(weights, r->folder() / name, ec);
      if (ec) fs::copy_file(weights, r->folder() / name, ec);
      if (ec) log_("cannot write " + (r->folder() / name).string() + ": " + ec.message());
    }
  }
  static_cast<void>(r->finish(how));  // without weights to write
  if (const auto saved = r->status(); !saved)
    log_("the run folder of job " + std::to_string(number) + " is incomplete: " + saved.error().text);
  remove_old_weights();
}

std::optional<std::string> job_runs::folder(std::uint32_t number) const {
  if (const auto r = of(number)) return r->folder().string();
  return std::nullopt;
}

void job_runs::remove_old_weights() const {
  std::vector<fs::path> with;  // runs that have weights, the newest first
  std::vector<std::string> owners;
  std::error_code ec;
  for (const auto& run : run_folders(runs_)) {
    if (!fs::exists(run / "last.safetensors", ec) && !fs::exists(run / "best.safetensors", ec)) continue;
    with.insert(with.begin(), run);
    owners.insert(owners.begin(), owner_of_folder(run));
  }
  for (const auto i : surplus(owners, keep_job_folders))
    for (const char* name : {"last.safetensors", "best.safetensors"}) fs::remove(with[i] / name, ec);
}

}  // namespace troupe::control
