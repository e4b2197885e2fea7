// The backend of `troupe repl` without an address: runs jobs in this process, one after the other,
// each with a run folder (runtime/node/runs/run_info.hpp).
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <mutex>
#include <thread>

#include "actors/embedded.hpp"
#include "actors/repl/repl.hpp"
#include "actors/repl/run_backend.hpp"
#include "actors/supervision/gpu_watch.hpp"
#include "ops/device_descriptors.hpp"
#include "runtime/base/shell_word.hpp"
#include "runtime/cluster/view/about.hpp"
#include "runtime/cluster/view/ended_jobs.hpp"
#include "runtime/cluster/view/job_progress.hpp"
#include "runtime/job/record.hpp"
#include "runtime/messages/ids.hpp"
#include "runtime/node/config/prepare_text.hpp"
#include "runtime/node/config/resolved_job.hpp"
#include "runtime/node/machine_memory.hpp"
#include "runtime/node/node_tables.hpp"
#include "runtime/node/runs/run_recorder.hpp"
#include "runtime/record/checkpoint.hpp"
#include "runtime/record/checkpoint_home.hpp"
#include "runtime/record/second_place.hpp"

namespace troupe {
namespace {

// The shell command that resumes the submitted job from `checkpoint`.
std::string resume_command(const repl_submission& s, const std::string& checkpoint) {
  auto line = "troupe train " + shell_word(s.file);
  for (const auto& o : s.overrides) line += " --set " + shell_word(o);
  return line + " --resume " + shell_word(checkpoint);
}

// A file name that does not exist yet, so that no run overwrites the weights of another.
std::string unused_weights_file(const std::string& job) {
  for (unsigned n = 1;; ++n) {
    auto file = job + (n > 1 ? "." + std::to_string(n) : "") + ".safetensors";
    std::error_code ec;
    if (!std::filesystem::exists(std::filesystem::symlink_status(file, ec))) return file;
  }
}

class embedded_backend final : public repl_backend {
 public:
  embedded_backend(std::function<void(const std::string&)> tell_person, std::function<void()> unsaved, std::function<void()> hung)
      : reports_{std::move(tell_person), std::move(unsaved), std::move(hung)},
        all_(std::make_shared<const tables>(node_tables())),
        runner_([this] { run_jobs(); }) {}

  ~embedded_backend() override {
    std::string left;
    {
      std::lock_guard guard(lock_);
      closing_ = true;
      if (running_) {
        running_->stop();
        left = "job " + std::to_string(running_id_) + " is stopping and saves a checkpoint; Ctrl-C exits without it";
      }
      for (const auto& [j, devices] : waiting_)
        left += (left.empty() ? "" : "\n") + ("job " + std::to_string(j->id)) + " is discarded, it has not started";
    }
    changed_.notify_all();
    if (!left.empty()) reports_.tell_person(left);
    runner_.join();
  }

  repl_view view() const override {
    repl_view v;
    v.node = "local";
    v.up_seconds = seconds_of(std::chrono::steady_clock::now() - begun_);
    v.memory = resident_memory();
    std::shared_ptr<embedded_run> running;
    {
      std::lock_guard guard(lock_);
      for (const auto& j : jobs_) {
        v.jobs.push_back(j.shown);
        j.checkpoint.show(v.jobs.back());
      }
      running = running_;
      if (gpus_) v.gpus = shown(gpus_->latest());
    }
    if (running) add_run(v, *running);
    settle_ended_jobs(v);
    return v;
  }

  const repl_events& events() const override { return events_; }

  expected<command_id> tell(std::uint32_t job, command c) override {
    const auto id = c.id = events_.next_command();
    std::lock_guard guard(lock_);
    if ((c.is<stop_command>() || c.is<kill_command>()) && leave_queue(job)) return id;
    if (!running_ || job != running_id_) return unexpected(error("job " + std::to_string(job) + " is not running"));
    if (c.is<stop_command>()) {
      entry(job).state = job_state::stopping;
      running_->stop();
    } else if (c.is<kill_command>()) {
      running_->kill("killed by a user");
    } else {
      running_->command(std::move(c));
    }
    return id;
  }

  expected<std::uint32_t> submit(const repl_submission& s) override {
    auto made = prepare_text({s.text, s.file, s.overrides, {}, true}, all_);  // `submit` names the file
    if (!made) return unexpected(all_of(made.error()));
    if (const auto fits = check_memory(**made, 0, machine_memory(dev_->pool().bytes_held)); !fits)
      return unexpected(error(fits.error().to_string()));
    auto& j = *made;
    if (j->spec.record) reports_.tell_person("jobs of this REPL are not recorded; `troupe train --record` records a run");
    device_list devices;
    try {
      devices = make_devices(j->nodes.front().devices);
    } catch (const std::exception& e) {
      return unexpected(error(e.what()));
    }
    for (auto& d : devices)
      if (d->kind() == device_kind::cpu) d = dev_;  // whose pool has the memory of earlier jobs
    const auto gpus = gpus_in(j->nodes.front().devices);
    auto watch = gpus.empty() ? nullptr : std::make_unique<gpu_watch>(gpus);  // the former one ends without the lock
    std::unique_lock guard(lock_);
    if (watch) gpus_.swap(watch);
    const auto job = j->id = static_cast<std::uint32_t>(jobs_.size() + 1);
    repl_job r;
    r.id = job;
    r.name = j->spec.name;
    r.state = job_state::queued;
    r.last_step = j->last_step;
    r.about = std::make_shared<const repl_about>(about_job(*j));
    jobs_.push_back({std::move(r), {s.file, {}, s.overrides}});
    waiting_.push_back({std::move(j), std::move(devices)});
    changed_.notify_all();
    changed_.wait(guard,
                  [&] { return running_ || waiting_.empty(); });  // if no other job runs, the next command finds this one running
    return job;
  }

  expected<void> start_trace(const std::string& file) override {
    const auto run = running();
    return run ? run->start_trace(file) : unexpected(error("no job runs"));
  }
  expected<trace_summary> stop_trace() override {
    const auto run = running();
    return run ? run->stop_trace() : unexpected(error("no trace is being written"));
  }
  expected<trace_summary> write_latest(const std::string& file) override {
    const auto run = running();
    return run ? write_latest_of(*run, file) : unexpected(error("no job runs"));
  }
  std::optional<double> usual_step() const override {
    const auto run = running();
    return run ? usual_step_of(*run) : std::nullopt;
  }

 private:
  std::shared_ptr<embedded_run> running() const {
    std::lock_guard guard(lock_);
    return running_;
  }
  repl_job& entry(std::uint32_t job) { return jobs_[job - 1].shown; }

  // Returns true if the job was queued; it is not any more.
  bool leave_queue(std::uint32_t job) {
    const auto left = std::erase_if(waiting_, [&](const auto& w) { return w.job->id == job; });
    if (left == 0) return false;
    entry(job).state = job_state::stopped;
    entry(job).message = "removed from the queue before it started";
    changed_.notify_all();
    return true;
  }

  void run_jobs() {
    for (;;) {
      std::shared_ptr<prepared_job> j;
      embedded_options o;
      {
        std::unique_lock guard(lock_);
        changed_.wait(guard, [&] { return closing_ || !waiting_.empty(); });
        if (closing_) return;
        j = waiting_.front().job;
        o.devices = waiting_.front().devices;
      }
      const auto checkpoints = checkpoint_folder_of(*j);
      auto run = run_of(j, numerics_of(o.devices), checkpoints);
      {
        std::unique_lock guard(lock_);
        if (std::erase_if(waiting_, [&](const auto& w) { return w.job == j; }) == 0 || closing_) {  // it has left the queue
          if (run) static_cast<void>(run->finish({"failed", j->first_step, {}, "removed from the queue before it started", {}}));
          continue;
        }
        o.on_event = [this, id = j->id](const event_effect& e) { handle_event(id, e); };
        o.on_store = [this, j, numerics = numerics_of(o.devices)](const store_effect& s) { keep(*j, numerics, s); };
        running_ = std::make_shared<embedded_run>(j, std::move(o));
        running_id_ = j->id;
        saved_.newest = {};
        saved_.elsewhere = {};
        saved_.checkpoints = checkpoints;
        saved_.run = std::move(run);
        if (saved_.run) entry(j->id).folder = saved_.run->folder().string();
        entry(j->id).state = job_state::running;
        changed_.notify_all();
      }
      const auto result = running_->run();
      finish(*j, result);
    }
  }

  // Makes the folder that [checkpoint] dir of the job wants. Empty: none is wanted, or it cannot be
  // made.
  std::string checkpoint_folder_of(const prepared_job& j) {
    auto made = folder_for_checkpoints(j.spec.checkpoint.dir, j.spec.name);
    if (!made) reports_.tell_person("job " + std::to_string(j.id) + ": [checkpoint]: 'dir': " + made.error().to_string());
    return made ? *std::move(made) : std::string();
  }

  // Makes the run folder of a job. Null: none is wanted, or it cannot be made.
  std::unique_ptr<run_recorder> run_of(const std::shared_ptr<prepared_job>& j, const std::string& numerics,
                                       const std::string& checkpoints) {
    const auto runs = default_runs_folder();
    if (runs.empty()) return nullptr;
    prepare_for_run_folder(*j);
    auto info = facts_of_run(*j, numerics);
    info.overrides = submitted_of(j->id).overrides;
    info.checkpoints = checkpoints;
    auto made = run_recorder::create(runs, j, std::move(info), resolved_job_text(*j), {reports_.tell_person});
    if (!made) {
      reports_.tell_person("job " + std::to_string(j->id) + " has no run folder: " + made.error().to_string());
      return nullptr;
    }
    return std::move(*made);
  }

  repl_submission submitted_of(std::uint32_t job) const {
    std::lock_guard guard(lock_);
    return jobs_[job - 1].submitted;
  }

  // Ends the run folder. Returns the text for the job's last line; empty: there is no folder, or
  // the weights are not in it.
  std::string end_run(const embedded_result& result) {
    if (!saved_.run) return {};
    const bool done = result.ok && !result.stopped;
    const auto written = saved_.run->finish({done        ? "done"
                                             : result.ok ? "stopped"
                                                         : "failed",
                                             result.step, result.weights_sha256, result.error, result.weights});
    if (const auto saved = saved_.run->status(); !saved)
      reports_.tell_person("the run folder is incomplete: " + saved.error().text);
    return done && written ? ", weights in " + (saved_.run->folder() / "last.safetensors").string() : std::string();
  }

  // Writes the weights of a completed job to the current folder, named after the job. Returns the
  // text for the job's last line.
  std::string keep_weights(const prepared_job& j, const embedded_result& result) {
    const auto kept = write_or_elsewhere(saved_.elsewhere, unused_weights_file(j.spec.name), [&](const std::string& path) {
      return write_safetensors(path, result.weights, weights_metadata(j, result.step));
    });
    if (!kept.trouble) return ", weights in " + kept.path;
    if (reports_.unsaved) reports_.unsaved();
    return ", but its weights were not saved as requested: " + kept.trouble->to_string();
  }

  void finish(const prepared_job& j, const embedded_result& result) {
    const auto id = j.id;
    auto weights = end_run(result);
    if (weights.empty() && result.ok && !result.stopped) weights = keep_weights(j, result);
    std::string line = "job " + std::to_string(id) + " ";
    {
      std::lock_guard guard(lock_);
      auto& r = entry(id);
      r.state = !result.ok ? job_state::failed : result.stopped ? job_state::stopped : job_state::done;
      r.message = result.error;
      r.weights_sha256 = result.weights_sha256;
      r.step = result.step;
      line += text_of(r.state) + weights + (result.error.empty() ? "" : ": " + result.error);
      if (r.state == job_state::stopped && !saved_.newest.path.empty())
        line += "; resume with: " +
                (saved_.run ? "troupe resume " + saved_.run->words() : resume_command(jobs_[id - 1].submitted, saved_.newest.path));
      running_.reset();
    }
    if (result.hung && reports_.hung) reports_.hung();
    reports_.tell_person(line);
  }

  // The job's state changes before its event is in the log, where commands wait for it.
  void handle_event(std::uint32_t id, const event_effect& e) {
    {
      std::lock_guard guard(lock_);
      note_event(entry(id), e);
      if (!saved_.newest.trouble) jobs_[id - 1].checkpoint.note(e);
    }
    if (!e.is<checkpoint_event>())
      put(id, e);
    else if (saved_.newest.trouble)
      put(id, {e.step, checkpoint_lost_event{"the checkpoint was not saved: " + saved_.newest.trouble->to_string()}, e.answers});
    else
      put(id, {e.step, checkpoint_event{saved_.newest.path}, e.answers});
  }

  void put(std::uint32_t id, const event_effect& e) {
    if (saved_.run && !only_answers(e)) saved_.run->event(e);
    events_.put(id, e);
  }

  kept_file keep_in(const std::string& folder, const prepared_job& j, const checkpoint& c) {
    return save_checkpoint_or_elsewhere(saved_.elsewhere, folder, j.spec.name + ".checkpoint.safetensors", c,
                                        static_cast<std::size_t>(j.spec.checkpoint.keep));
  }

  // Writes a checkpoint to the job's folder of checkpoints, to the run folder, or to the current
  // folder, named after the job.
  void keep(const prepared_job& j, const std::string& numerics, const store_effect& s) {
    if (saved_.run) saved_.run->store(s);
    if (s.what != store_effect::kind_of::checkpoint) return;
    const auto file = j.spec.name + ".checkpoint.safetensors";
    const auto c = checkpoint_of(j, s, numerics);
    const auto folder = saved_.run ? saved_.run->checkpoints().string() : saved_.checkpoints;
    saved_.newest = folder.empty() ? write_or_elsewhere(saved_.elsewhere, file,
                                                        [&](const std::string& path) { return write_checkpoint(path, c); })
                                   : keep_in(folder, j, c);
    reports_.tell_person(saved_.newest.trouble ? saved_.newest.trouble->to_string()
                                               : "checkpoint of step " + std::to_string(s.step) + " in " + saved_.newest.path);
    std::lock_guard guard(lock_);
    if (saved_.newest.trouble && closing_ && reports_.unsaved) reports_.unsaved();
  }

  const struct {  // of make_embedded_backend()
    std::function<void(const std::string&)> tell_person;
    std::function<void()> unsaved, hung;
  } reports_;
  std::shared_ptr<const tables> all_;
  const std::shared_ptr<device> dev_ = make_cpu_device();
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  repl_events events_;
  struct {             // of the running job; used only by the thread that runs jobs
    kept_file newest;  // checkpoint
    second_place elsewhere;
    std::string checkpoints;            // the folder of [checkpoint] dir; empty: none
    std::unique_ptr<run_recorder> run;  // null: the job has no run folder
  } saved_;
  mutable std::mutex lock_;
  std::condition_variable changed_;
  struct submitted_job {
    repl_job shown;
    repl_submission submitted;  // without the file's text
    newest_checkpoint checkpoint = {};
  };
  std::deque<submitted_job> jobs_;  // job n is at index n - 1
  struct waiting_job {
    std::shared_ptr<prepared_job> job;
    device_list devices;
  };
  std::deque<waiting_job> waiting_;
  std::shared_ptr<embedded_run> running_;
  std::uint32_t running_id_ = 0;
  std::unique_ptr<gpu_watch> gpus_;  // of the newest job that uses any
  bool closing_ = false;
  std::thread runner_;  // last: it uses everything above
};

}  // namespace

std::unique_ptr<repl_backend> make_embedded_backend(std::function<void(const std::string&)> tell_person,
                                                    std::function<void()> unsaved, std::function<void()> hung) {
  return std::make_unique<embedded_backend>(std::move(tell_person), std::move(unsaved), std::move(hung));
}

}  // namespace troupe
