// Writes runs.db, the SQLite database of all runs in a folder (run_schema.hpp). Several processes
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
