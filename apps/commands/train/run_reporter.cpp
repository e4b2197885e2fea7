#include "apps/commands/train/run_reporter.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "actors/repl/run_socket.hpp"
#include "actors/shell/node_host.hpp"
#include "actors/supervision/stop_signals.hpp"
#include "apps/commands/train/time_shares.hpp"
#include "runtime/coordinator/handover.hpp"
#include "runtime/job/record.hpp"
#include "runtime/node/http/access.hpp"
#include "runtime/record/checkpoint.hpp"

namespace troupe {
namespace {

run_extent extent_of(const prepared_job& j) { return {j.first_step, j.last_step, j.steps_per_epoch, j.spec.data.batch}; }

std::string where_of(const record_error& e) { return e.tensor.empty() ? e.file : e.file + ": " + e.tensor; }

}  // namespace

run_reporter::run_reporter(std::shared_ptr<prepared_job> j, const output& out, device_list devices, unsigned threads,
                           std::optional<job_origin> from, std::optional<beginning_file> begins, const std::string& trace)
    : job_(std::move(j)), numerics_(numerics_of(devices)), progress_(out, extent_of(*job_)) {
  embedded_options o;
  o.threads = threads;
  o.devices = std::move(devices);
  o.origin = std::move(from);
  o.begins = std::move(begins);
  o.trace = trace;
  o.on_event = [this](const event_effect& e) { handle_event(e); };
  o.on_store = [this](const store_effect& s) { keep(s); };
  run_ = std::make_unique<embedded_run>(job_, std::move(o));
}

int run_reporter::finish() {
  progress_.begin_with(record ? best_of(record->info()) : job_->before ? job_->before->best : std::nullopt);
  const stop_signals watch([this](int) {
    asked_ = true;
    run_->stop();
  });
  std::optional<run_socket> socket;
  if (record) {
    make_backend();
    socket.emplace(run_socket_file(record->folder()), *backend_);
    if (!socket->error().empty()) progress_.event({job_->first_step, warning_event{socket->error()}});
  }
  time_sampler sampler(job_->plan, [this] { return roles(); });
  const auto r = run_->run();
  sampler.stop();
  if (r.trace) handle_trace(*r.trace, r.step);
  std::error_code in_use;
  if (!checkpoint_folder.empty()) std::filesystem::remove(checkpoint_folder, in_use);  // only succeeds if it is empty
  if (!r.ok) {
    tell_failure(r);
    socket.reset();
    if (r.hung) {  // a thread still runs a task: what it uses must exist until the process ends
      std::fflush(nullptr);
      std::_Exit(exit_failed);
    }
    return exit_failed;
  }
  const int code = r.stopped ? watch.exit_code(exit_done) : exit_done;
  const bool left_out = r.stopped && !weights_file.empty();
  if (!left_out) save_weights_of(r);
  end_record(r);
  tell_end(r);
  socket.reset();  // once clients that follow `stop` have its outcome
  // The event "done" is the last one, after all files were written. If a file could not be written,
  // the last event is an error.
  if (left_out) tell_left_out(r.step);
  for (const auto& t : troubles_) progress_.event({r.step, error_event{t.message, where_of(t)}});
  if (!troubles_.empty()) return exit_failed;
  if (left_out) return code == exit_done ? int{exit_failed} : code;
  auto done = r.done;
  if (record) done.run = record->folder().string();
  auto more = r.stopped && record ? std::vector<std::string>{"troupe resume " + record->words()} : next;
  progress_.end_with({sampler.text(), record ? record->folder().string() : std::string(), std::move(more)});
  progress_.event({r.step, std::move(done)});
  return code;
}

// The last event for clients of the socket and of the page.
void run_reporter::tell_end(const embedded_result& r) {
  if (!backend_) return;
  auto done = r.done;
  for (const auto& t : troubles_) done.alerts.push_back(t.to_string());
  backend_->handle_event({r.step, std::move(done)});
  if (page_) page_->finish();
}

void run_reporter::handle_trace(const expected<trace_summary>& t, std::uint64_t step) {
  if (!t)
    troubles_.push_back({"--trace", {}, t.error().text});
  else if (t->lost > 0)
    progress_.event({step, warning_event{t->file + " lacks " + std::to_string(t->lost) +
                                         " messages and tasks: roles were faster than the trace could be written"}});
}

void run_reporter::tell_failure(const embedded_result& r) {
  const event_effect e{r.step, error_event{r.error, r.where, r.post_mortem}};
  if (record) {
    record->event(e);
    static_cast<void>(record->finish({"failed", r.step, {}, r.error, {}}));  // without weights to write
  }
  if (backend_) backend_->handle_event(e);
  if (page_) page_->finish();
  progress_.event(e);
}

// A run that was stopped has a checkpoint and no final weights. The command then does not succeed,
// because a script would use the file of --out.
void run_reporter::tell_left_out(std::uint64_t step) {
  const auto how = record ? "`troupe resume " + record->words() + "`" : "--resume " + checkpoint_.path;
  const auto text =
      "not written, because the run was stopped at step " + std::to_string(step) + " before its end; continue with " + how;
  progress_.event({step, error_event{text, weights_file}});
}

void run_reporter::save_weights_of(const embedded_result& r) {
  if (weights_file.empty()) return;
  auto kept = write_or_elsewhere(elsewhere_, weights_file,
                                 [&](const std::string& path) { return save_weights(*job_, r.weights, r.step, path); });
  if (kept.trouble) troubles_.push_back(std::move(*kept.trouble));
}

void run_reporter::end_record(const embedded_result& r) {
  if (!record) return;
  record->event({r.step, r.done});
  auto written = record->finish({r.stopped ? "stopped" : "done", r.step, r.weights_sha256, {}, r.weights});
  if (!written && weights_file.empty()) {  // the only copy of what was trained
    auto kept = write_elsewhere(elsewhere_, std::move(written).error(), job_->spec.name + ".safetensors",
                                [&](const std::string& path) { return save_weights(*job_, r.weights, r.step, path); });
    troubles_.push_back(std::move(*kept.trouble));
  }
  if (const auto saved = record->status(); !saved)
    progress_.event({r.step, warning_event{"the run folder is incomplete: " + saved.error().text}});
}

std::vector<role_published> run_reporter::roles() const {
  std::vector<role_published> all;
  run_->look([&](const node_host& h) { all = h.published(); });
  return all;
}

expected<void, coded_error> run_reporter::serve_metrics(const std::string& where) {
  auto made = run_metrics::open(where, *job_, [this] { return roles(); });
  if (!made) return unexpected(made.error());
  metrics_ = std::move(*made);
  progress_.head({{"metrics", metrics_->url()}});
  return {};
}

void run_reporter::make_backend() {
  if (backend_) return;
  backend_ = std::make_unique<run_backend>(*run_, *job_, record->number(), record->folder().string());
  backend_->on_end = [this] {
    asked_ = true;
    wait_no_more_for_readers();
  };
}

expected<std::string, coded_error> run_reporter::serve_page(const std::string& where) {
  if (!record)
    return unexpected(coded_error{"no_run_folder", "the page's token is kept in the run folder, which --no-run leaves out"});
  const auto at = http::loopback_address(where, "the page of a run is served");
  if (!at) return unexpected(at.error());
  make_backend();
  page_options o;
  o.where = *at;
  o.token_file = record->folder() / "page.token";
  o.runs = record->folder().parent_path();
  o.title = "Troupe: run " + record->folder().filename().string();
  auto made = page_server::open(o, *backend_);
  if (!made) return unexpected(made.error());
  page_ = std::move(*made);
  return page_->url() + ", its token is in " + o.token_file.string();
}

void run_reporter::announce(const event_effect& e) {
  if (record) record->event(e);
  if (backend_) backend_->handle_event(e);
  if (metrics_) metrics_->event(e);
  progress_.event(e);
}

void run_reporter::handle_event(const event_effect& e) {
  if (ends_job(e)) return;                              // finish() reports it, once
  if (e.is<histogram_event>() || e.is<best_event>()) {  // not for people who follow the run
    if (record) record->event(e);
    if (backend_) backend_->handle_event(e);
    return;
  }
  if (only_answers(e)) {
    if (backend_) backend_->handle_event(e);
    return;
  }
  if (!e.is<checkpoint_event>()) return announce(e);
  if (checkpoint_file.empty()) return;
  if (!checkpoint_.trouble) return announce({e.step, checkpoint_event{checkpoint_.path}, e.answers});
  // Training continues without this checkpoint. If it is the last one, of a run that was asked to
  // stop (`asked_`), the run has failed.
  announce({e.step, checkpoint_lost_event{checkpoint_.trouble->to_string()}, e.answers});
  if (asked_) troubles_.push_back(*checkpoint_.trouble);
}

void run_reporter::keep(const store_effect& s) {
  if (record) record->store(s);
  if (s.what != store_effect::kind_of::checkpoint || checkpoint_file.empty()) return;
  if (metrics_) metrics_->saving();
  write_checkpoint_of(s);
  if (metrics_) metrics_->saved(!checkpoint_.trouble);
}

void run_reporter::write_checkpoint_of(const store_effect& s) {
  if (!checkpoint_folder.empty()) {
    checkpoint_ =
        save_checkpoint_or_elsewhere(elsewhere_, checkpoint_folder, std::filesystem::path(checkpoint_file).filename().string(),
                                     checkpoint_of(*job_, s, numerics_), static_cast<std::size_t>(job_->spec.checkpoint.keep));
    return;
  }
  checkpoint_ = write_or_elsewhere(elsewhere_, checkpoint_file,
                                   [&](const std::string& path) { return save_checkpoint_file(*job_, s, numerics_, path); });
}

}  // namespace troupe
