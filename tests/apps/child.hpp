// A program run as a user runs it: arguments in; lines, errors and an exit code out. Everything has
// a deadline, and nothing sleeps.
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
  int code = -1;    // of exit(); 128 + n when signal n ended it
  std::string out;  // what read_line() has not taken
  std::string err;
};

class child {
 public:
  // `words`: the arguments behind the program's name. Runs in folder `where`.
  child(const std::string& program, const std::vector<std::string>& words, const std::filesystem::path& where);
  ~child();  // kills what is left
  child(const child&) = delete;
  child& operator=(const child&) = delete;

  // The next line of stdout; false at its end or after the deadline.
  bool read_line(std::string& line, std::chrono::milliseconds limit = std::chrono::seconds(60));
  void send(int signal) const;
  outcome wait(std::chrono::milliseconds limit = std::chrono::seconds(120));

 private:
  bool pump(std::chrono::steady_clock::time_point until);

  pid_t pid_ = -1;
  int out_ = -1, err_ = -1;
  std::string out_text_, err_text_;
};

// A folder of its own per test, gone afterwards.
class command_test : public testing::Test {
 protected:
  command_test();
  ~command_test() override;

  std::string write(const std::string& name, const std::string& text) const;
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  outcome troupe(const std::vector<std::string>& words) const;

  std::filesystem::path folder_;
};

std::string troupe_program();

// Every line of `text` as an object; fails the test when one is none.
std::vector<nlohmann::json> objects(const std::string& text);
std::vector<nlohmann::json> of_kind(const std::vector<nlohmann::json>& list, const std::string& event);

// A job that trains in a moment, on made-up data; `extra` goes to the end.
std::string tiny_job(const std::string& extra = {});

}  // namespace troupe::testing_apps
