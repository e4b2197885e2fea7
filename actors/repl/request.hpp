// One line while a command of the REPL handles it. Private to actors/repl/.
#pragma once

#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "actors/repl/repl.hpp"
#include "actors/repl/tables.hpp"

namespace troupe {

using repl_arguments = std::vector<std::string>;

struct repl_command;  // command.hpp

struct repl_request {
  repl_backend& backend;
  bool json;
  repl_arguments args;      // after the command's name
  const std::string* text;  // contents of the file that the line names; null: not sent
  std::string line;
  const repl_command* command = nullptr;  // its table entry

  repl_reply fail(const std::string& why, repl_reply::kind how = repl_reply::kind::failed) const {
    return {how, repl_error_text(json, why), {}};
  }
  repl_reply usage(const std::string& why) const { return fail(why, repl_reply::kind::usage); }
};

// Splits a line at blanks; blanks within "..." do not separate.
repl_arguments repl_split(const std::string& line);

// Parses `text`, which must be a non-negative number and nothing else. Returns false if it is not.
template <class T>
bool repl_number(const std::string& text, T& out) {
  std::istringstream in(text);
  in >> out;
  return in && in.peek() == std::istringstream::traits_type::eof() && text.find('-') == std::string::npos;
}

// The job that argument `at` names; without that argument, the running job. Nullopt and `error` if
// there is none.
std::optional<std::uint32_t> repl_job_of(const repl_view& v, const repl_arguments& args, std::size_t at, std::string& error);

// A job of the view. Null if it has no job of that number.
const repl_job* find_job(const repl_view& v, std::uint32_t id);

// Passes `c` on to the job's coordinator and confirms that.
repl_reply repl_sent(const repl_request& r, std::uint32_t job, const command& c);

std::string repl_text_of(const repl_event& e, const char* name);  // one of the event's texts; empty if it has none of that name
bool repl_not_saved(const repl_event& e);                         // an alert that a checkpoint was not saved

// Lines that the terminal and other clients send, not users. `help` and completion omit them.
repl_reply repl_follow(const repl_request& r);     // `_follow NAME JOB EVENT LEFT`
repl_reply repl_completed(const repl_request& r);  // `_complete TEXT`: the candidates for the text's last word, one per line

}  // namespace troupe
