// Writes runs.db, the SQLite database of all runs in a folder. Several processes
// may write to it: it is in WAL mode and waits up to 10 s for another writer. After a crash it
// holds every committed batch. Only its user can read it.
// Errors: values. Threads: one at a time.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/node/runs/lock_wait.hpp"
#include "runtime/node/runs/run_info.hpp"

namespace troupe {

// The tables of runs.db. Times are seconds since 1970 (UTC), `seconds` durations. A missing value
// (no test data, no loss of a skipped step) is NULL.

constexpr int run_schema_version = 1;  // PRAGMA user_version

constexpr const char* run_schema = R"(
CREATE TABLE IF NOT EXISTS runs (
  number INTEGER PRIMARY KEY, name TEXT NOT NULL, folder TEXT NOT NULL, state TEXT NOT NULL, job_file TEXT, seed INTEGER, mode TEXT,
  workers INTEGER, batch INTEGER, parameters INTEGER, started TEXT, ended TEXT, seconds REAL, steps INTEGER, last_step INTEGER,
  loss REAL, accuracy REAL, best_accuracy REAL, best_step INTEGER, weights_sha256 TEXT, error TEXT, version TEXT, host TEXT,
  blas_kernel TEXT);
CREATE TABLE IF NOT EXISTS steps (
  run INTEGER NOT NULL, step INTEGER NOT NULL, epoch REAL, time REAL, loss REAL, lr REAL, examples_per_s REAL,
  PRIMARY KEY (run, step)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS evaluations (
  run INTEGER NOT NULL, step INTEGER NOT NULL, epoch REAL, time REAL, loss REAL, accuracy REAL, PRIMARY KEY (run, step)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS node_failures (run INTEGER NOT NULL, step INTEGER NOT NULL, time REAL, text TEXT);
CREATE TABLE IF NOT EXISTS staleness (
  run INTEGER NOT NULL, step INTEGER NOT NULL, parameter TEXT NOT NULL, clocks INTEGER NOT NULL, reads INTEGER NOT NULL,
  PRIMARY KEY (run, step, parameter, clocks)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS events (run INTEGER NOT NULL, step INTEGER NOT NULL, time REAL, kind TEXT NOT NULL, text TEXT);
)";

class run_database {
 public:
  // Opens or creates RUNS/runs.db. An error if another process keeps it locked.
  static expected<std::unique_ptr<run_database>, record_error> open(const std::filesystem::path& runs,
                                                                    const lock_patience& patience = {});
  ~run_database();
  run_database(const run_database&) = delete;
  run_database& operator=(const run_database&) = delete;

  // All rows between begin() and commit() are written together.
  void begin();
  void commit();

  void run(const run_info& r, const std::string& folder);  // adds or replaces the row of the run
  void step(std::uint64_t step, double epoch, double time, double loss, double lr, double examples_per_s);
  void evaluation(std::uint64_t step, double epoch, double time, double loss, double accuracy);
  void node_failure(std::uint64_t step, double time, const std::string& text);
  void staleness(std::uint64_t step, const std::string& parameter, std::uint64_t clocks, std::uint64_t reads);
  void event(std::uint64_t step, double time, const std::string& kind, const std::string& text);
  // Removes the rows of this run after `step`.
  void forget_after(std::uint64_t step);
  void of_run(std::uint32_t number);  // sets the run that rows belong to

  // Error of the first statement that failed. Later statements are ignored.
  const expected<void, record_error>& status() const;

 private:
  struct impl;
  explicit run_database(std::unique_ptr<impl> i);
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe
