// What a command says, and where: results on stdout, troubles on stderr; with --json, events on
// stdout and nothing else there. Exit codes are part of the contract with scripts.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "runtime/base/diagnostic.hpp"

namespace troupe {

enum exit_code : int { exit_done = 0, exit_failed = 1, exit_wrong = 2 };

class output {
 public:
  explicit output(bool json) : json_(json) {}
  bool json() const { return json_; }

  // One event a line; flushed, because somebody may be waiting for it.
  void object(const nlohmann::ordered_json& o) const;
  // For people: text as it is, only without --json.
  void text(const std::string& s) const;
  // For people, on stderr: what is worth knowing and no trouble.
  void remark(const std::string& s) const;

  // The user's mistakes, all of them, and troubles while running; return the exit code that goes
  // with it.
  int wrong(const diagnostics& list) const;
  int wrong(const std::string& where, const std::string& message) const;
  int failed(const std::string& where, const std::string& message) const;

 private:
  void error(const std::string& where, const std::string& message) const;
  bool json_;
};

// The exit code of a program that would end with `code`: failed, where anything that it wrote on
// stdout was lost (a full disk, a closed pipe), which stderr then says.
int with_stdout(int code);

// "weights_sha256 HASH (...)": the hash of all weights, and that it is none of a file.
std::string weights_line(const std::string& hash);
// "0.8712"; "1:02:03"
std::string fixed(double x, int digits);
std::string clock_text(double seconds);
// `s` padded with spaces to `width`, on the left for numbers.
std::string left(const std::string& s, std::size_t width);
std::string flush_right(const std::string& s, std::size_t width);

}  // namespace troupe
