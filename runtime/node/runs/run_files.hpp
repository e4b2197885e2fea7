// Parts of run_recorder: numbered folders and their locks, files that grow by rows, and the text of
// rows.
// Errors: values. Threads: one at a time.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/node/runs/lock_wait.hpp"
#include "runtime/record/safetensors.hpp"
#include "runtime/role.hpp"

namespace troupe {

// An open file with an exclusive lock (flock), which ends with the process.
class folder_lock {
 public:
  explicit folder_lock(int fd = -1) : fd_(fd) {}
  ~folder_lock();
  folder_lock(folder_lock&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  folder_lock& operator=(folder_lock&& o) noexcept {
    std::swap(fd_, o.fd_);
    return *this;
  }

 private:
  int fd_;
};

struct locked_folder {
  std::filesystem::path path;  // absolute
  folder_lock lock;
};

// Makes a folder of runs, which other users cannot enter, unless there is one.
expected<void, record_error> make_runs_folder(const std::filesystem::path& runs);
// Makes RUNS/NUMBER-NAME, which other users cannot enter. `number` 0: it is set to the next one.
// Else a folder without run.json is used again: the process that made it was killed before the run
// began.
expected<locked_folder, record_error> new_numbered_folder(const std::filesystem::path& runs, const std::string& name,
                                                          std::uint32_t& number, const lock_patience& patience = {});
// Locks a run folder. An error if a process writes it.
expected<folder_lock, record_error> lock_folder(const std::filesystem::path& folder);

// A text file to which whole lines are appended. A line that could not be written completely is
// removed again.
class row_file {
 public:
  row_file() = default;
  ~row_file();
  row_file(const row_file&) = delete;
  row_file& operator=(const row_file&) = delete;

  expected<void, record_error> open(const std::filesystem::path& file);  // also once more, after the file was replaced
  bool empty() const { return size_ == 0 && lines_.empty(); }
  void add(const std::string& line);            // without the newline
  std::uint64_t rows() const { return rows_; }  // since flush()
  expected<void, record_error> flush();

 private:
  std::filesystem::path file_;
  int fd_ = -1;
  std::int64_t size_ = 0;
  std::uint64_t rows_ = 0;
  std::string lines_;
};

inline constexpr const char* metrics_header = "step,epoch,time,loss,accuracy,lr,examples_per_s,test_loss";
// `values`: loss, accuracy, lr, examples_per_s, test_loss; those that are not finite are left
// empty.
std::string metrics_row(std::uint64_t step, double epoch, double time, const std::array<double, 5>& values);
// Removes rows after `step`, and a last line without its end. Returns the step of the last row that
// is left (0: none; `step` if there is no file).
expected<std::uint64_t, record_error> keep_metrics_until(const std::filesystem::path& file, std::uint64_t step);
// Removes the events of later steps that a job which continues at `step` reports again
// (evaluations, checkpoints, the end), and a last line without its end. What happened to the run
// stays: failures, alerts, commands. There may be no file.
expected<void, record_error> keep_events_until(const std::filesystem::path& file, std::uint64_t step);

expected<void, record_error> write_text(const std::filesystem::path& file, const std::string& text);  // atomically
std::string utc_text(std::chrono::system_clock::time_point at);                                       // 2026-11-26T19:26:30Z

}  // namespace troupe
