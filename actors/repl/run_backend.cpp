#include "actors/repl/run_backend.hpp"

#include "actors/shell/usual_step_of.hpp"
#include "runtime/cluster/view/about.hpp"
#include "runtime/cluster/view/ended_jobs.hpp"

namespace troupe {

void add_run(repl_view& v, const embedded_run& run) {
  v.memory = resident_memory();
  run.look([&v](const node_host& host) {
    for (auto& r : host.published()) v.roles.push_back({v.node, std::move(r)});
    v.dropped = host.counts();
  });
}

expected<trace_summary> write_latest_of(const embedded_run& run, const std::string& file) {
  expected<trace_summary> written = unexpected(error("no job runs"));
  run.look([&](const node_host& host) {
    const auto* record = host.activities();
    written = record ? write_latest(file, *record, "local", repl_backend::latest_span)
                     : unexpected(error("this run keeps no record of what its roles do"));
  });
  return written;
}

std::optional<double> usual_step_of(const embedded_run& run) {
  std::optional<double> found;
  run.look([&](const node_host& host) { found = usual_step_of(host); });
  return found;
}

run_backend::run_backend(embedded_run& run, const prepared_job& j, std::uint32_t number, std::optional<std::string> folder)
    : run_(run) {
  job_.id = number;
  job_.name = j.spec.name;
  job_.state = job_state::running;
  job_.step = j.first_step;
  job_.last_step = j.last_step;
  job_.about = std::make_shared<const repl_about>(about_job(j));
  job_.folder = std::move(folder);
}

void run_backend::handle_event(const event_effect& e) {
  {
    std::lock_guard guard(lock_);
    ++events_seen_;
    note_event(job_, e);
    checkpoint_.note(e);
    if (const auto* d = e.as<done_event>()) job_.state = d->stopped() ? job_state::stopped : job_state::done;
    if (const auto* bad = e.as<error_event>()) {
      job_.state = job_state::failed;
      job_.message = bad->message;
    }
  }
  events_.put(job_.id, e);
}

repl_view run_backend::view() const {
  repl_view v;
  v.node = "local";
  v.up_seconds = seconds_of(std::chrono::steady_clock::now() - begun_);
  {
    std::lock_guard guard(lock_);
    v.jobs = {job_};
    checkpoint_.show(v.jobs.front());
    v.events = events_seen_;
  }
  add_run(v, run_);
  settle_ended_jobs(v);
  return v;
}

expected<command_id> run_backend::tell(std::uint32_t job, command c) {
  {
    std::lock_guard guard(lock_);
    if (job != job_.id || job_.over()) return unexpected(error("job " + std::to_string(job) + " is over"));
    if (c.is<stop_command>()) job_.state = job_state::stopping;
  }
  const auto id = c.id = events_.next_command();
  if (on_end && (c.is<kill_command>() || c.is<stop_command>())) on_end();
  if (c.is<kill_command>()) {
    run_.kill("killed by a user");
  } else if (c.is<stop_command>()) {
    run_.stop();
  } else {
    run_.command(std::move(c));
  }
  return id;
}

expected<std::uint32_t> run_backend::submit(const repl_submission&) {
  return unexpected(
      error("this is the REPL of one run, which takes no further jobs: use `troupe train`, or `troupe repl` without an argument"));
}

}  // namespace troupe
