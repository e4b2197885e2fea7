// One line on its way through the REPL's commands. Only for repl_*.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "actors/repl/repl.hpp"
#include "actors/repl/tables.hpp"

namespace troupe {

using repl_words = std::vector<std::string>;

struct repl_request {
  repl_backend& backend;
  bool json;
  repl_words args;          // after the command's name
  const std::string* text;  // of a file that the line names, when the caller has read it
  std::string line;

  repl_reply fail(const std::string& why, repl_reply::kind how = repl_reply::kind::failed) const {
    return {how, repl_error_text(json, why), {}};
  }
  repl_reply usage(const std::string& why) const { return fail(why, repl_reply::kind::usage); }
};

// Words are separated by blanks; "..." holds blanks.
repl_words repl_split(const std::string& line);

// Everything of `text` must be the number, which is 0 or more.
template <class T>
bool repl_number(const std::string& text, T& out) {
  std::istringstream in(text);
  in >> out;
  return in && in.peek() == std::istringstream::traits_type::eof() && text.find('-') == std::string::npos;
}

// The job that is meant: the one named by word `at`, or the one that runs. Nothing and an error otherwise.
std::optional<std::uint32_t> repl_job_of(const repl_view& v, const repl_words& args, std::size_t at, std::string& error);

// repl_steer.cpp: commands whose answer is an event of the job, and what there is to know of its layers.
repl_reply repl_mode_command(const repl_request& r);
repl_reply repl_move(const repl_request& r);
repl_reply repl_drain(const repl_request& r);
repl_reply repl_add_node(const repl_request& r);
repl_reply repl_set_mode_option(const repl_request& r);  // `set train.sync.KEY VALUE [JOB]`
repl_reply repl_checkpoint(const repl_request& r);
repl_reply repl_stop(const repl_request& r);
repl_reply repl_staleness(const repl_request& r);
repl_reply repl_watch(const repl_request& r);
repl_reply repl_layer_command(const repl_request& r);
repl_reply repl_follow(const repl_request& r);
// What could stand where the line ends: one word a line.
repl_reply repl_complete(const repl_request& r);

}  // namespace troupe
