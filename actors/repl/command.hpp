// The table of REPL commands: one entry for each command. Entries are grouped in families
// (commands_*.cpp), and `help` lists them in that order.
//
// A command whose outcome is an event of the job (`mode`, `checkpoint`, `watch`, ...) is
// *followed*. The session has no state between two lines and must not block, because a daemon's
// REPL serves all clients. A reply that is not the whole answer therefore names the line to send
// next: `_follow NAME JOB EVENT LEFT COMMAND WORD...` requests the events of JOB after event number
// EVENT. The outcome is the event that has the id COMMAND among its answers, or the job's last
// event. run_line() is the loop that sends these lines. If it ends early (Ctrl-C), the job still
// executes the command.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/repl/request.hpp"
#include "runtime/base/result.hpp"
#include "runtime/cluster/view/about.hpp"

namespace troupe {

constexpr std::uint64_t repl_patience = std::chrono::seconds(60) / repl_ask_every;
constexpr std::uint64_t repl_long_patience = 3 * repl_patience;  // for commands that open data or write to disk

struct repl_following {
  const char* name;
  // The reply to the command, of which event `e` is the outcome. Nullopt: the command fails, for
  // the reason in a refusal, or because the job has ended. `said`: all events that this request has
  // read. `r.args`: the words of `_follow`; those of the command begin at repl_follow_words.
  std::optional<repl_reply> (*handle_event)(const repl_request& r, const repl_event& e, const std::vector<repl_event>& said);
  std::uint64_t patience = repl_patience;  // requests after which the command fails; initial value of LEFT
  bool from_the_start = false;             // every request reads all events since the command was sent, not only new ones
  // The reply if the command was refused or has no outcome yet, for the reason `why`; null: the
  // command fails.
  repl_reply (*give_up)(const repl_request& r, const std::string& why) = nullptr;
};
constexpr std::size_t repl_follow_words = 5;
// After that many requests the user is told what the command waits for.
constexpr std::uint64_t repl_notice = std::chrono::seconds(2) / repl_ask_every;

// Input of a completion: the words before the word to complete, the command first; and the view
// that has the names.
struct repl_typed {
  const repl_arguments& before;
  const repl_view& view;
};
// Returns all words that are valid there. The caller selects those with the typed prefix.
using repl_choices = std::vector<std::string> (*)(const repl_typed&);

struct repl_command {
  repl_command_help help;
  repl_reply (*run)(const repl_request&);
  const repl_following* follow = nullptr;    // null: the first reply is the whole answer
  std::vector<repl_choices> completes = {};  // by argument; null: no completion for that one
  repl_choices completes_rest = nullptr;     // for all arguments after those
  bool takes_file = false;  // the first argument is a file name; the client sends the file's text with the line (files.cpp)
  bool endless = false;     // ends when the job is over or the user interrupts it; at a terminal also when a line is typed
  // At a terminal, each reply replaces the last line; the terminal adds the argument width=COLUMNS.
  bool redraws = false;
  right needs = right::all;  // right that a client of a daemon needs; default: admins only
};

// The meaning of the argument JOB.
inline std::pair<std::string, std::string> repl_job_argument() {
  return {"JOB", "number of the job, as `jobs` shows it; without it, the running job"};
}

// The families, in the order of `help`.
std::vector<repl_command> repl_commands_that_look();
std::vector<repl_command> repl_commands_to_jobs();
std::vector<repl_command> repl_commands_that_change();
std::vector<repl_command> repl_commands_that_ask();
std::vector<repl_command> repl_commands_that_watch();
std::vector<repl_command> repl_commands_that_trace();
std::vector<repl_command> repl_commands_that_harm();
std::vector<repl_command> repl_commands_of_sessions();

const std::vector<repl_command>& repl_table();
const repl_command* find_repl_command(const std::string& name);
const repl_following* find_repl_following(const std::string& name);
std::string repl_command_name(const std::string& word);     // `help` for "?", `quit` for "exit", others as they are
std::string repl_unknown_command(const std::string& name);  // the error, with a similar name

// Sends a command without arguments to the job that the request's only argument names, and follows
// its events until one gives the result.
repl_reply repl_tell_and_wait(const repl_request& r, const command& c);
// Passes `c` on to the job's coordinator, then follows the job's events as the entry's `follow`
// says. If `job` is an error, the reply is that failure. `words`: for the handler of events.
repl_reply repl_tell_and_follow(const repl_request& r, const expected<std::uint32_t>& job, const command& c,
                                const repl_arguments& words = {});

// Completions of arguments (complete.cpp).
namespace repl_choice {
std::vector<std::string> commands(const repl_typed& t);
std::vector<std::string> jobs(const repl_typed& t);  // those that are not over yet
std::vector<std::string> layers(const repl_typed& t);
std::vector<std::string> nodes(const repl_typed& t);
std::vector<std::string> modes(const repl_typed& t);
std::vector<std::string> job_keys(const repl_typed& t);  // "train.finish.steps="
// The modes of the job, including those of plugins. Without a job, the modes of this build.
const std::vector<repl_mode>& known_modes(const repl_view& v);
}  // namespace repl_choice

}  // namespace troupe
