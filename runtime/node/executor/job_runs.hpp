// Run folders (runtime/node/runs/run_info.hpp) of the jobs that a daemon coordinates, in
// STATE/runs. A run has the job's number. A job that continues after a restart of the daemon
// continues its run. Weights of `keep_job_folders` runs are kept, as job folders are
// (job_folders.hpp); the rest of a run stays.
// Errors: a run that cannot be written is logged; the job goes on without it.
// Threads: event(), store() and folder() may be called by any thread and never wait for a disk; the
// others by one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "runtime/cluster/job_event.hpp"
#include "runtime/job/job.hpp"
#include "runtime/node/runs/run_recorder.hpp"

namespace troupe::control {

// The folder with the record of this run; empty: none.
std::filesystem::path folder_of_run(const std::filesystem::path& runs, std::uint32_t number);

class job_runs {
 public:
  job_runs(const std::filesystem::path& state, std::function<void(const std::string&)> log);

  // Before the roles are made: the job's best evaluation is that of best.safetensors in its run
  // folder. A job without a folder that begins from a checkpoint of `another` run has none yet.
  void continue_best(std::uint32_t number, const std::string& owner, prepared_job& j, bool another) const;
  void begin(std::uint32_t number, const std::string& owner, std::shared_ptr<const prepared_job> j, const std::string& numerics);
  void event(std::uint32_t number, const job_event& e);
  void store(std::uint32_t number, const store_effect& s);
  // `last`: "done", "error" or "preempted". `weights`: file of the final ones; empty: none.
  void end(std::uint32_t number, const job_event& last, const std::filesystem::path& weights);
  std::optional<std::string> folder(std::uint32_t number) const;  // of a job that runs, or an earlier one

 private:
  std::shared_ptr<run_recorder> of(std::uint32_t number) const;
  void remove_old_weights() const;

  const std::filesystem::path runs_;
  const std::function<void(const std::string&)> log_;
  mutable std::mutex lock_;
  std::uint32_t number_ = 0;               // of the running job
  std::shared_ptr<run_recorder> current_;  // its run; null: none
};

}  // namespace troupe::control
