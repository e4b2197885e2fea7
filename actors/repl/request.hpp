// One line on its way through the REPL's commands. Only for what answers it.
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
  const std::string* text;  // of the file that the line names
  std::string line;
  const repl_command* command = nullptr;  // its row

  repl_reply fail(const std::string& why, repl_reply::kind how = repl_reply::kind::failed) const {
    return {how, repl_error_text(json, why), {}};
  }
  repl_reply usage(const std::string& why) const { return fail(why, repl_reply::kind::usage); }
};

// Words are separated by blanks; "..." holds blanks.
repl_arguments repl_split(const std::string& line);

// Everything of `text` must be the number, which is 0 or more.
template <class T>
bool repl_number(const std::string& text, T& out) {
  std::istringstream in(text);
  in >> out;
  return in && in.peek() == std::istringstream::traits_type::eof() && text.find('-') == std::string::npos;
}

// The job that is meant: the one named by word `at`, or the one that runs. Nothing and an error
// otherwise.
std::optional<std::uint32_t> repl_job_of(const repl_view& v, const repl_arguments& args, std::size_t at, std::string& error);

// A job of the view; null: there is none of that number.
const repl_job* find_job(const repl_view& v, std::uint32_t id);

// Passes `c` on, and says so.
repl_reply repl_sent(const repl_request& r, std::uint32_t job, const command& c);

std::string repl_text_of(const repl_event& e, const char* name);  // one of its texts; empty: it has none of that name
bool repl_not_saved(const repl_event& e);                         // an alert that a checkpoint is not where it belongs

// What the REPL's own terminal and clients ask, and no person types: they are in no help text and
// in no completion.
repl_reply repl_follow(const repl_request& r);     // `_follow NAME JOB EVENT LEFT`
repl_reply repl_completed(const repl_request& r);  // `_complete TEXT`: what could stand where the text ends, one word a line

}  // namespace troupe
