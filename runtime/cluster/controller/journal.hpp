// Journal: what the coordinator's daemon must know after it was killed: the submitted jobs in their
// order, the saved state of the running one, and the results of finished jobs, for clients that
// have not received them. An append-only text file. Every line is "<crc32c, 8 hex digits> <JSON
// object>" and synced before it counts:
//
//   {"is":"queued","job":7,"file":..,"text":..,"overrides":[..],"given":..,"given_kind":..,
//    "given_bytes":..,"owner":..}
//   {"is":"begun","job":7}           its roles began; once more after each restart of the daemon
//   {"is":"kept","job":7,"file":..}  its newest checkpoint
//   {"is":"set","job":7,"settings":[[key,value,from],..],"paused":..}
//   {"is":"changed","job":7,"layers":[[layer,[place,..],whole],..],"without":[node,..],"mode":..,
//    "mode_options":[[key,value],..]}
//                                    all moves, drains and mode switches by users
//   {"is":"over","job":7,"name":..,"owner":..,"state":..,"weights":..,"step":..,"last_step":..,
//    "kind":..,"text":..,"values":[[key,value],..],"texts":[[key,value],..],"loss":..,
//    "accuracy":..,"examples_per_s":..,"skipped":..}
//   {"is":"number","job":7}          the last job number that was used
//
// `job` is the number that users see. Reading ends at a torn or damaged line. Opening a journal
// rewrites it with the unfinished jobs and 64 finished ones (the oldest of the owner with the most
// are left out first). A file NAME.step next to it holds the step that the running job has reached:
// one line of the same form, {"job":7,"step":..}, overwritten after each step and not synced. A
// simulated machine has both texts in memory (journal_storage.hpp).
// Errors: texts that name the file.  Threads: one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/cluster/controller/journal_storage.hpp"
#include "runtime/cluster/job_event.hpp"
#include "runtime/cluster/messages.hpp"
#include "runtime/cluster/view/job_state.hpp"
#include "runtime/job/amend.hpp"
#include "runtime/messages/control.hpp"

namespace troupe::control {

struct unfinished_job {
  std::uint32_t number = 0;
  job_text what;
  given_file given;         // named as by the client; its place is given_path()
  std::uint32_t begun = 0;  // starts since the last checkpoint
  std::string kept;         // its newest checkpoint; empty: none
  std::vector<set_value> settings;
  bool paused = false;
  std::string owner = {};     // the client that submitted it
  amendments changes = {};    // by users
  std::uint64_t reached = 0;  // its step when the daemon ended; 0: unknown
};

// A finished job and its last event.
struct finished_job {
  std::uint32_t number = 0;
  std::string name, owner;  // as in repl_job, also `state`
  job_state state = job_state::done;
  std::string weights;          // path on the coordinator's node; empty: none
  std::uint64_t last_step = 0;  // of its plan
  job_event last;
  double loss = 0, accuracy = -1, examples_per_s = 0;  // as in repl_job
  std::uint64_t skipped = 0;
};
constexpr std::size_t finished_kept = 64;

// The file that the job starts from now: its newest checkpoint, else the client's file, else
// nothing.
given_file begins_with(const unfinished_job& j);

// --- lines, without a file

std::string journal_queued(const unfinished_job& j);
std::string journal_begun(std::uint32_t number);
std::string journal_kept(std::uint32_t number, const std::string& file);
std::string journal_set(std::uint32_t number, const std::vector<set_value>& settings, bool paused);
std::string journal_changed(std::uint32_t number, const amendments& changes);
std::string journal_over(const finished_job& j);

struct journal_content {
  std::vector<unfinished_job> jobs;    // in the order of submission
  std::vector<finished_job> finished;  // in the order of their ends; their events have no id
  std::uint32_t last_number = 0;       // the last that was used
  bool damaged = false;                // lines at the end were ignored
};
journal_content read_journal(const std::string& text);

// --- the journal

class journal {
 public:
  // Reads an existing journal or creates one. Content that cannot be read is ignored.
  explicit journal(std::filesystem::path file);
  explicit journal(std::shared_ptr<journal_storage> in);

  // The first error of the constructor. The journal may still be of use: found() has what could be
  // read, and append() says whether lines can be added.
  const expected<void>& opened() const { return opened_; }
  const journal_content& found() const { return found_; }
  // The line is on disk. A line that failed is written by the next append() or reached().
  expected<void> append(const std::string& line);
  void reached(std::uint32_t job, std::uint64_t step);              // best effort: after a failed write the step is unknown
  void pace(before_write before) { in_->pace(std::move(before)); }  // called before every write and sync

 private:
  expected<void> write_owed();

  const std::shared_ptr<journal_storage> in_;
  journal_content found_;
  expected<void> opened_;
  bool open_ = false;
  std::string owed_;  // lines that could not be written
};

}  // namespace troupe::control
