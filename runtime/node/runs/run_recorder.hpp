// Writes the folder of one run (run_info.hpp) and its rows in runs.db, on a thread of its own.
//
//   auto made = run_recorder::create(runs, job, facts_of_run(*job), resolved_job_text(...));
//   recorder.event(e);  recorder.store(s);  ...  recorder.finish(end);
//
// Rows reach the files within `interval`; after a crash of the process the folder holds all but the
// last ones. If a file cannot be written (a full disk), the run continues: status() says why, and
// run.json counts what is missing.
// Threads: event(), store() and status() may be called by any thread; they wait while more than
// 4096 events are queued. finish() and the destructor wait until everything is written.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/job/job.hpp"
#include "runtime/node/runs/lock_wait.hpp"
#include "runtime/node/runs/run_info.hpp"
#include "runtime/role.hpp"

namespace troupe {

// What run.json says about a job: everything that is known before it runs. `numerics`: numerics id
// of its devices.
run_info facts_of_run(const prepared_job& j, const std::string& numerics);
// A checkpoint every 5 minutes, unless the job says otherwise.
void add_checkpoint_interval(checkpoint_spec& c);
// Makes the job report what a run folder keeps: the best weights, histograms, checkpoints. On the
// coordinator's node, before its roles are made.
void prepare_for_run_folder(prepared_job& j);

// The best evaluation of a run that continues at the first step of `j`: that of best.safetensors,
// so that run.json and the job name the one whose weights there are. Nullopt if the file is
// missing, or of a later evaluation: its step is repeated.
std::optional<best_evaluation> kept_best(const std::filesystem::path& folder, const run_info& r, const prepared_job& j);
// Makes the job compare its evaluations with kept_best(), not with what the checkpoint names. On
// the coordinator's node, before its roles are made.
void continue_best(const std::filesystem::path& folder, const run_info& r, prepared_job& j);

class run_recorder {
 public:
  static constexpr std::chrono::milliseconds interval{250};

  // Makes RUNS/NUMBER-NAME. `r.number` 0: with the next number. `job_text`: content of job.toml.
  // After an error there is no new folder.
  static expected<std::unique_ptr<run_recorder>, record_error> create(const std::filesystem::path& runs,
                                                                      std::shared_ptr<const prepared_job> j, run_info r,
                                                                      const std::string& job_text,
                                                                      const lock_patience& patience = {});
  // Continues a run at the first step of `j`: rows of later steps, final weights, and best weights
  // other than those of kept_best() are removed. An error if a process writes the folder.
  static expected<std::unique_ptr<run_recorder>, record_error> resume(const std::filesystem::path& folder,
                                                                      std::shared_ptr<const prepared_job> j, run_info r,
                                                                      const lock_patience& patience = {});
  ~run_recorder();  // without finish(): the run stays interrupted
  run_recorder(const run_recorder&) = delete;
  run_recorder& operator=(const run_recorder&) = delete;

  const std::filesystem::path& folder() const;
  std::uint32_t number() const;
  std::string word() const;   // how commands name it: "7"
  std::string words() const;  // of commands that read its job: "7", or "7 --load-plugins" if the job names plugins
  std::filesystem::path checkpoints() const;

  void event(const event_effect& e);
  void store(const store_effect& s);  // "best"; others are ignored
  // The same for callers that must not wait: while the queue is full, events are left out and
  // counted in run.json.
  void offer(const event_effect& e);
  void offer(const store_effect& s);

  struct end {
    std::string state;  // done | stopped | failed
    std::uint64_t step = 0;
    std::string weights_sha256, error;
    named_tensors weights;  // final; empty: none are written
  };
  // An error if the final weights could not be written.
  expected<void, record_error> finish(const end& how);
  // The first error of a file that could not be written.
  expected<void> status() const;
  run_info info() const;

 private:
  struct impl;
  explicit run_recorder(std::unique_ptr<impl> i);
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe
