// Output of commands: results on stdout, errors on stderr; with --json, events and errors on stdout
// as JSON, and nothing else there. All text is printable() (runtime/base/printable.hpp), because it
// may hold what a file, a daemon or another user has written. Exit codes are part of the interface
// for scripts.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "runtime/base/diagnostic.hpp"

namespace troupe {

// A process that a signal has stopped ends with 128 + signal (actors/supervision/stop_signals.hpp).
enum exit_code : int { exit_done = 0, exit_failed = 1, exit_wrong = 2 };

class output {
 public:
  explicit output(bool json) : json_(json) {}
  bool json() const { return json_; }

  // Prints an event on one line and flushes, so that readers of a pipe get it at once.
  void object(const nlohmann::ordered_json& o) const;
  // Prints lines of a result to stdout, also with --json, where each must be an object.
  void lines(const std::string& s) const;
  // Prints text to stdout; nothing with --json.
  void text(const std::string& s) const;
  // The same for text with control sequences of this program, whose other parts are printable.
  void drawn(const std::string& s) const;
  // Prints lines of a format for programs, as they are; on a terminal printable.
  void formatted(const std::string& s) const;
  // Prints a note or warning to stderr.
  void remark(const std::string& s) const;

  // Print errors and return the exit code: wrong() for wrong usage or files, failed() for failures
  // at run time.
  int wrong(const diagnostics& list) const;
  int wrong(const std::string& where, const std::string& message) const;
  int failed(const std::string& where, const std::string& message) const;

 private:
  void error(const std::string& where, const std::string& message) const;
  bool json_;
};

// Returns the exit code of a program that would end with `code`: exit_failed if output to stdout
// was lost (a full disk), which is reported on stderr. A reader that went away (the end of a pipe,
// a closed terminal) wants no more output: that is no failure and not reported.
int with_stdout(int code);
// True if the reader of stdout went away (a write has failed): a command that only prints ends then
// (docs/commands.md, "Exit codes").
bool stdout_unread();
// The process was asked to end by other means than a signal: from now on, output is left out once
// its reader has not read for `reader_patience`. A request by a signal (stop_signals) does the
// same.
void wait_no_more_for_readers();
constexpr std::chrono::seconds reader_patience{5};

// "weights_sha256 HASH (...)": the hash of all weights, with a note that it is not a file's hash.
std::string weights_line(const std::string& hash);
std::string fixed(double x, int digits);  // "0.8712"
std::string clock_text(double seconds);   // "1:02:03"
// Pads `s` with spaces to `width`: left() aligns to the left, flush_right() to the right.
std::string left(const std::string& s, std::size_t width);
std::string flush_right(const std::string& s, std::size_t width);

}  // namespace troupe
