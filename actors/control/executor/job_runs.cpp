#include "actors/control/executor/job_runs.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include "actors/control/executor/job_folders.hpp"
#include "runtime/base/result.hpp"
#include "runtime/node/config/resolved_job.hpp"
#include "runtime/node/runs/run_info.hpp"

namespace troupe::control {
namespace {

namespace fs = std::filesystem;

// The folder with the record of this run.
std::optional<fs::path> folder_of_run(const fs::path& runs, std::uint32_t number) {
  const auto head = std::to_string(number) + "-";
  std::error_code ec;
  for (const auto& f : run_folders(runs))
    if (f.filename().string().starts_with(head) && fs::exists(run_info_file(f), ec)) return f;
  return std::nullopt;
}

expected<std::unique_ptr<run_recorder>, record_error> recorder_of(const fs::path& runs, std::uint32_t number,
                                                                  const std::shared_ptr<const prepared_job>& j,
                                                                  const std::string& numerics, const lock_patience& patience) {
  if (const auto folder = folder_of_run(runs, number)) {
    auto read = read_run_info(*folder);
    if (!read) return unexpected(std::move(read).error());
    return run_recorder::resume(*folder, j, *std::move(read), patience);
  }
  auto info = facts_of_run(*j, numerics);
  info.number = number;
  return run_recorder::create(runs, j, std::move(info), resolved_job_text(*j), patience);
}

}  // namespace

job_runs::job_runs(const fs::path& state, std::function<void(const std::string&)> log)
    : runs_(state / "runs"), log_(std::move(log)) {}

std::shared_ptr<run_recorder> job_runs::of(std::uint32_t number) const {
  std::lock_guard guard(lock_);
  return number == number_ ? current_ : nullptr;
}

void job_runs::begin(std::uint32_t number, std::shared_ptr<const prepared_job> j, const std::string& numerics) {
  auto made = recorder_of(runs_, number, j, numerics, {log_});
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
  auto all = run_folders(runs_);
  for (std::size_t i = 0; i + keep_job_folders < all.size(); ++i)
    for (const char* name : {"last.safetensors", "best.safetensors"}) {
      std::error_code ec;
      fs::remove(all[i] / name, ec);
    }
}

}  // namespace troupe::control
