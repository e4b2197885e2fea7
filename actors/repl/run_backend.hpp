// The backend of the REPL for one embedded run that another part of this process owns, such as that
// of `troupe train`. All commands but submit.
//
//   embedded_options o;
//   std::unique_ptr<run_backend> here;             // made after `run`
//   o.on_event = [&](const event_effect& e) { here->handle_event(e); };
//   embedded_run run(job, o);
//   here = std::make_unique<run_backend>(run, *job, 7, folder);
//   run_socket socket(run_socket_file(folder), *here);    // run_socket.hpp
//   auto result = run.run();
//
// Threads: any. `run` must outlive the object.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/embedded.hpp"
#include "runtime/base/result.hpp"
#include "runtime/cluster/view/job_progress.hpp"
#include "runtime/cluster/view/view.hpp"

namespace troupe {

// Adds the roles of an embedded run to a view, and the memory of this process.
void add_run(repl_view& v, const embedded_run& run);
// As in repl_backend, of an embedded run.
expected<trace_summary> write_latest_of(const embedded_run& run, const std::string& file);
std::optional<double> usual_step_of(const embedded_run& run);

class run_backend final : public repl_backend {
 public:
  // `number`: of the job, as users see it. `folder`: the run folder.
  run_backend(embedded_run& run, const prepared_job& j, std::uint32_t number = 1, std::optional<std::string> folder = {});

  // Takes an event of the run, in the order of events. The caller has set the file of a checkpoint,
  // or replaced the event by checkpoint_lost_event.
  void handle_event(const event_effect& e);
  // Called when a client stops or kills the job, before the run is told. Set it before clients can
  // connect.
  std::function<void()> on_end;

  repl_view view() const override;
  const repl_events& events() const override { return events_; }
  expected<command_id> tell(std::uint32_t job, command c) override;
  expected<std::uint32_t> submit(const repl_submission&) override;
  expected<void> start_trace(const std::string& file) override { return run_.start_trace(file); }
  expected<trace_summary> stop_trace() override { return run_.stop_trace(); }
  expected<trace_summary> write_latest(const std::string& file) override { return write_latest_of(run_, file); }
  std::optional<double> usual_step() const override { return usual_step_of(run_); }

 private:
  embedded_run& run_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  repl_events events_;
  mutable std::mutex lock_;  // protects the members below
  repl_job job_;
  newest_checkpoint checkpoint_;
  std::uint64_t events_seen_ = 0;  // that job_ reflects
};

}  // namespace troupe
