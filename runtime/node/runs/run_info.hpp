// The folder of a training run, and run.json, which describes the run.
//
//   RUNS/7-lenet-fashion/          NUMBER-NAME; RUNS is `runs`, --run-dir or $TROUPE_RUNS
//     job.toml                     the resolved job file: every key with its value
//     run.json                     run_info, replaced as a whole when it changes
//     metrics.csv                  a line per step and per evaluation (run_curve.hpp)
//     events.jsonl                 all events but steps, one JSON object a line
//     last.safetensors             the final weights
//     best.safetensors             weights of the best evaluation; without test data the final ones
//     checkpoints/                 checkpoint-<n>-step-<step>.safetensors
//     curve.svg                    loss and accuracy over steps
//     recording/                   recorded plans (runtime/node/post_mortem.hpp)
//     tensorboard/                 event files
//     lock                         locked (flock) by the process that writes the folder
//     repl.sock                    socket of the running process, mode 0600
//   RUNS/runs.db                   SQLite database of all runs (run_database.hpp)
//
// Errors: values.  Threads: functions without state.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/printable.hpp"
#include "runtime/base/result.hpp"
#include "runtime/messages/best_evaluation.hpp"
#include "runtime/record/safetensors.hpp"

namespace troupe {

// size: mirrors the columns of the database of runs
struct run_info {
  std::uint32_t number = 0;
  std::string name;      // of the job
  std::string state;     // running | done | stopped | failed; a reader also finds "interrupted": the process is gone
  std::string job_file;  // as the user named it
  std::vector<std::string> overrides;
  std::uint64_t seed = 0;
  std::string mode;  // of synchronisation, e.g. "ssp staleness=3"
  std::uint64_t workers = 0, packets = 0, parameters = 0, batch = 0;
  std::uint64_t last_step = 0;  // of the job; 0: unknown
  std::uint64_t steps_per_epoch = 0;
  std::string version;  // of Troupe
  std::string host, cpu, blas_kernel;
  std::uint64_t cores = 0;
  std::vector<std::string> devices;
  std::string started, ended;                // UTC, 2026-11-26T19:26:30Z; empty: not yet
  double seconds = 0;                        // of training, over all sessions of the run
  std::uint64_t steps = 0;                   // completed
  double loss = 0;                           // of the last step
  double accuracy = -1, best_accuracy = -1;  // of the last and the best evaluation; -1: none
  std::uint64_t best_step = 0;
  double best_loss = std::numeric_limits<double>::quiet_NaN();  // of the best evaluation; NaN: none
  std::string weights_sha256;                                   // of the final weights; empty: not yet
  std::string error;                                            // of a failed run
  std::vector<std::uint64_t> resumed_at;                        // steps at which the run was resumed
  std::string checkpoints;                                      // folder or file of its checkpoints, absolute
  std::string begun_from;              // file that the run started from, absolute; empty: it started from the fillers
  bool begun_from_checkpoint = false;  // false: from weights
  std::uint64_t not_recorded = 0;      // events that are missing: a file could not be written, or the process was killed
};

// The best evaluation of the run; nullopt: there was none.
std::optional<best_evaluation> best_of(const run_info& r);
void set_best(run_info& r, const std::optional<best_evaluation>& best);

// Paths in a run folder.
std::filesystem::path run_job_file(const std::filesystem::path& folder);      // job.toml
std::filesystem::path run_info_file(const std::filesystem::path& folder);     // run.json
std::filesystem::path run_metrics_file(const std::filesystem::path& folder);  // metrics.csv
std::filesystem::path run_events_file(const std::filesystem::path& folder);   // events.jsonl
std::filesystem::path run_lock_file(const std::filesystem::path& folder);     // lock
std::filesystem::path run_database_file(const std::filesystem::path& runs);   // runs.db

// Where the checkpoints of the run in `folder` are: a folder, or a .safetensors file. A run whose
// checkpoints are in its own folder has them there after the folder was moved, copied or renamed;
// `info.checkpoints` then names the place of the original.
std::filesystem::path checkpoints_of_run(const std::filesystem::path& folder, const run_info& info);

// The text of run.json. A loss that is not finite, and an accuracy of -1, are null.
std::string run_info_text(const run_info& r);
// Reads this text.
expected<run_info> parse_run_info(const std::string& text);
// Whether a process holds the lock of a run folder. Holds a shared lock for a moment, so a process
// that takes the lock (LOCK_EX | LOCK_NB) must try again a few times before it reports that the
// folder is in use.
bool run_is_locked(const std::filesystem::path& folder);
// Reads run.json of a folder (at most 1 MiB). The state is "interrupted" if it says "running" and
// no process holds the lock.
expected<run_info, record_error> read_run_info(const std::filesystem::path& folder);

// $TROUPE_RUNS, or "runs". $TROUPE_RUNS = "off" means that no folder is made: returns an empty
// path.
std::filesystem::path default_runs_folder();
// The run folders in `runs`, by number.
std::vector<std::filesystem::path> run_folders(const std::filesystem::path& runs);
// An error if `runs` is there and cannot be listed (it belongs to another user, or is a file): then
// run_folders finds none. A folder that does not exist is no error.
expected<void, record_error> check_runs_folder(const std::filesystem::path& runs);
// The folder of a run that a user names: a number ("7"), a folder's name ("7-lenet"), a path (the
// folder is then absolute), the job's name (its newest run), or "last" (the newest run). An error
// names the runs that there are.
expected<std::filesystem::path, record_error> find_run(const std::filesystem::path& runs, const std::string& word);

}  // namespace troupe
