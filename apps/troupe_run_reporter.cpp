#include "apps/troupe_run_reporter.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "apps/troupe_signals.hpp"
#include "runtime/job/record.hpp"
#include "runtime/record/checkpoint.hpp"

namespace troupe {
namespace {

run_extent extent_of(const prepared_job& j) { return {j.first_step, j.last_step, j.steps_per_epoch, j.spec.data.batch}; }

std::string where_of(const record_error& e) { return e.tensor.empty() ? e.file : e.file + ": " + e.tensor; }

}  // namespace

run_reporter::run_reporter(std::shared_ptr<prepared_job> j, const output& out, device_list devices, unsigned threads,
                           std::optional<job_origin> from, std::optional<beginning_file> begins)
    : job_(std::move(j)), numerics_(numerics_of(devices)), progress_(out, extent_of(*job_)) {
  embedded_options o;
  o.threads = threads;
  o.devices = std::move(devices);
  o.post_mortem = std::move(from);
  o.begins = std::move(begins);
  o.on_event = [this](const event_effect& e) { handle_event(e); };
  o.on_store = [this](const store_effect& s) { keep(s); };
  run_ = std::make_unique<embedded_run>(job_, std::move(o));
}

int run_reporter::finish() {
  const signal_watch watch([this](int) {
    asked_ = true;
    run_->stop();
  });
  auto r = run_->run();
  std::error_code in_use;
  if (!checkpoint_folder.empty()) std::filesystem::remove(checkpoint_folder, in_use);  // only succeeds if it is empty
  if (!r.ok) {
    event_texts texts{{"where", r.where}};
    if (!r.post_mortem.empty()) texts.emplace_back("post_mortem", r.post_mortem);
    progress_.event({"error", r.step, {}, r.error}, texts);
    if (r.hung) {  // a thread still runs a task: what it uses must exist until the process ends
      std::fflush(nullptr);
      std::_Exit(exit_failed);
    }
    return exit_failed;
  }
  if (!weights_file.empty()) {
    auto kept = write_or_elsewhere(elsewhere_, weights_file,
                                   [&](const std::string& path) { return save_weights(*job_, r.weights, r.step, path); });
    if (kept.trouble) troubles_.push_back(std::move(*kept.trouble));
  }
  // The event "done" is the last one, after all files were written. If a file could not be written,
  // the last event is an error.
  for (const auto& t : troubles_) progress_.event({"error", r.step, {}, t.message}, {{"where", where_of(t)}});
  if (!troubles_.empty()) return exit_failed;
  done_.step = r.step;
  progress_.event(done_, {{"weights_sha256", r.weights_sha256}});
  return exit_done;
}

void run_reporter::handle_event(const event_effect& e) {
  if (e.kind == "error") return;  // finish() reports it, once
  if (e.kind == "done") return void(done_ = e);
  if (e.kind != "checkpoint") return progress_.event(e);
  if (checkpoint_file.empty()) return;
  if (!checkpoint_.trouble) return progress_.event(e, {{"file", checkpoint_.path}});
  // Training continues without this checkpoint. If it is the last one, of a run that was asked to
  // stop (`asked_`), the run has failed.
  progress_.event({"alert", e.step, {}, checkpoint_.trouble->to_string()});
  if (asked_) troubles_.push_back(*checkpoint_.trouble);
}

void run_reporter::keep(const store_effect& s) {
  if (s.what != "checkpoint" || checkpoint_file.empty()) return;
  if (!checkpoint_folder.empty()) {
    const auto c = checkpoint_of(*job_, s, numerics_);
    auto bad = save_checkpoint(checkpoint_folder, c, static_cast<std::size_t>(job_->spec.checkpoint.keep));
    checkpoint_ = {};
    if (bad)
      checkpoint_ = write_elsewhere(elsewhere_, std::move(*bad), std::filesystem::path(checkpoint_file).filename().string(),
                                    [&](const std::string& path) { return write_checkpoint(path, c); });
    else
      checkpoint_.path = checkpoint_files(checkpoint_folder).front();
    return;
  }
  checkpoint_ = write_or_elsewhere(elsewhere_, checkpoint_file,
                                   [&](const std::string& path) { return save_checkpoint_file(*job_, s, numerics_, path); });
}

}  // namespace troupe
