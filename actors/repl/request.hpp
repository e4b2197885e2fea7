// One line while a command of the REPL handles it. Private to actors/repl/.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "actors/repl/repl.hpp"
#include "actors/repl/tables.hpp"
#include "runtime/base/result.hpp"

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

repl_arguments repl_split(const std::string& line);  // the words of a line (words.hpp)

// Parses `text`, which must be a non-negative number and nothing else. Returns false if it is not.
template <class T>
bool repl_number(const std::string& text, T& out) {
  std::istringstream in(text);
  in >> out;
  return in && in.peek() == std::istringstream::traits_type::eof() && text.find('-') == std::string::npos;
}

// Parses "50ms", "1.5s", "2min". Nullopt if the text is not a time.
std::optional<std::chrono::milliseconds> repl_time_of(const std::string& text);

// The job that argument `at` names; without that argument, the active job.
expected<std::uint32_t> repl_job_of(const repl_view& v, const repl_arguments& args, std::size_t at);

// The job whose turn it is: it waits for its nodes, is prepared on them, runs, or is ending. Null
// if there is none.
const repl_job* active_job(const repl_view& v);
// "; job 2 is queued" for each job whose turn has not come.
std::string waiting_jobs_text(const repl_view& v);
// A job of the view. Null if it has no job of that number.
const repl_job* find_job(const repl_view& v, std::uint32_t id);

// The reply of a command whose result is the event `e`: `text`, or the event as JSON with the job's
// number. `more`: further members of the JSON object.
repl_reply repl_outcome(const repl_request& r, const repl_event& e, const std::string& text,
                        const nlohmann::ordered_json& more = nlohmann::ordered_json::object());

std::string repl_named(std::uint32_t job);  // "job 7"
// The reason if the event is the refusal of a command.
const std::string* repl_refusal(const repl_event& e);

// Lines that the terminal and other clients send, not users. `help` and completion omit them.
repl_reply repl_follow(const repl_request& r);     // `_follow NAME JOB EVENT LEFT COMMAND WORD...`
repl_reply repl_watch(const repl_request& r);      // `_watch ...`, commands_watch.cpp
repl_reply repl_completed(const repl_request& r);  // `_complete TEXT`: the candidates for the text's last word, one per line

repl_reply repl_machine(const repl_request& r);  // `_machine TICKET [busy]`, measuring.cpp
repl_reply repl_link_to(const repl_request& r);  // `_link TICKET PEER ADDRESS [busy]`, measuring.cpp

}  // namespace troupe
