// Runs a program as a child process with arguments, and captures stdout, stderr and exit code. All
// waits have a deadline; none sleeps.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace troupe::testing_apps {

struct outcome {
  int code = -1;    // exit code; 128 + n if signal n ended it
  std::string out;  // without the lines that read_line() returned
  std::string err;
};

class child {
 public:
  // `words`: the arguments, without the program's name. Runs in folder `where`.
  child(const std::string& program, const std::vector<std::string>& words, const std::filesystem::path& where);
  ~child();  // kills the process if it still runs
  child(const child&) = delete;
  child& operator=(const child&) = delete;

  // Reads the next line of stdout. Returns false at its end or after the deadline.
  bool read_line(std::string& line, std::chrono::milliseconds limit = std::chrono::seconds(60));
  void send(int signal) const;
  // Closes its stdout, so that a process that prints on is not blocked while the test does other
  // work.
  void read_no_more();
  // Waits, without reading, until so much of its output is unread that it blocks. False: not within
  // `limit`.
  bool blocks_on_output(std::chrono::milliseconds limit = std::chrono::seconds(60)) const;
  outcome wait(std::chrono::milliseconds limit = std::chrono::seconds(120));

 private:
  bool pump(std::chrono::steady_clock::time_point until);

  pid_t pid_ = -1;
  int out_ = -1, err_ = -1;
  std::string out_text_, err_text_;
};

// A fixture with a temporary folder for each test.
class command_test : public testing::Test {
 protected:
  command_test();
  ~command_test() override;

  std::string write(const std::string& name, const std::string& text) const;
  // The content of a file of the folder, or of an absolute path; empty: there is none.
  std::string file_text(const std::string& name) const;
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  outcome troupe(const std::vector<std::string>& words) const;

  std::filesystem::path folder_;
};

std::string troupe_program();

// Parses every line of `text` as a JSON object; fails the test if a line is not one.
std::vector<nlohmann::json> objects(const std::string& text);
std::vector<nlohmann::json> of_kind(const std::vector<nlohmann::json>& list, const std::string& event);

// A job on synthetic data that trains in a moment; `extra` is appended.
std::string tiny_job(const std::string& extra = {});

}  // namespace troupe::testing_apps
