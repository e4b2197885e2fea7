// What the coordinator's daemon must still know after it was killed: which jobs it has taken, in
// their order, what is kept of the one that runs, and how the last ones ended, for whoever follows
// them and has not heard it yet. A text file that is only appended to; every line is "<crc32c, 8
// hex digits> <JSON object>", synced before it counts:
//
//   {"is":"queued","job":7,"file":..,"text":..,"overrides":[..],"given":..,"given_kind":..,"owner":..}
//   {"is":"begun","job":7}                    its roles were told to begin; once more after each restart of the daemon
//   {"is":"kept","job":7,"file":..}           the newest checkpoint of it
//   {"is":"set","job":7,"settings":[[key,value,from],..],"paused":..}
//   {"is":"changed","job":7,"layers":[[layer,[place,..],whole],..],"without":[node,..],"mode":..,"mode_options":[[key,value],..]}
//                                             what people have moved, drained and switched, all of it
//   {"is":"over","job":7,"name":..,"owner":..,"state":..,"weights":..,"step":..,"last_step":..,"kind":..,"text":..,"values":[[key,value],..],
//    "texts":[[key,value],..],"loss":..,"accuracy":..,"examples_per_s":..,"skipped":..}
//
// `job` is the number that people know. A line that is torn or damaged ends what is read, and what
// is after it; opening a journal writes it anew with what is unfinished and the newest 64 that are
// over. Beside it a file NAME.step holds the step that the running job has reached: one line of
// that form, {"job":7,"step":..}, overwritten after each step and not synced. Errors: texts that
// name the file. Threads: one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "actors/control/client/client.hpp"
#include "actors/control/messages.hpp"
#include "runtime/job/amend.hpp"
#include "runtime/messages/control.hpp"
#include "runtime/record/file_io.hpp"

namespace troupe::control {

struct unfinished_job {
  std::uint32_t number = 0;
  job_text what;
  given_file given;         // its file as the client called it; where it lies follows from the number
  std::uint32_t begun = 0;  // times since the last checkpoint
  std::string kept;         // its newest checkpoint; empty: none
  std::vector<set_value> settings;
  bool paused = false;
  std::string owner = {};     // who has submitted it
  amendments changes = {};    // of people, since
  std::uint64_t reached = 0;  // the step that it had come to when the daemon ended; 0: not known
};

// One that is over, and its last event.
struct finished_job {
  std::uint32_t number = 0;
  std::string name, owner, state;  // as in repl_job
  std::string weights;             // where they are with the coordinator; empty: nowhere
  std::uint64_t last_step = 0;     // that the plan had
  job_event last;
  double loss = 0, accuracy = -1, examples_per_s = 0;  // as in repl_job
  std::uint64_t skipped = 0;
};
constexpr std::size_t finished_kept = 64;

// What it begins with now: its newest checkpoint, else the client's file, else nothing.
given_file begins_with(const unfinished_job& j);

// --- lines, without a file

std::string journal_queued(const unfinished_job& j);
std::string journal_begun(std::uint32_t number);
std::string journal_kept(std::uint32_t number, const std::string& file);
std::string journal_set(std::uint32_t number, const std::vector<set_value>& settings, bool paused);
std::string journal_changed(std::uint32_t number, const amendments& changes);
std::string journal_over(const finished_job& j);

struct journal_content {
  std::vector<unfinished_job> jobs;    // in the order in which they were taken
  std::vector<finished_job> finished;  // in the order in which they ended; their events have no id
  std::uint32_t last_number = 0;       // that was given out
  bool damaged = false;                // something at the end was not read
};
journal_content read_journal(const std::string& text);

// --- the file

class journal {
 public:
  // Reads what is there, or begins one. What cannot be read counts as not there and is said in
  // `error`.
  explicit journal(std::filesystem::path file, std::string* error = nullptr);
  ~journal();
  journal(const journal&) = delete;
  journal& operator=(const journal&) = delete;

  const journal_content& found() const { return found_; }
  std::string append(const std::string& line);                     // an error, or it is on disk
  void reached(std::uint32_t job, std::uint64_t step);             // best effort: after a failed write the step is unknown
  void pace(before_write before) { before_ = std::move(before); }  // called before every write and sync

 private:
  std::filesystem::path file_;
  journal_content found_;
  int fd_ = -1, step_fd_ = -1;
  before_write before_;
  std::int64_t size_ = 0;
};

}  // namespace troupe::control
