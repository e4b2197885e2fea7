// A command of the REPL: one row says all there is to it. Rows stand in families (commands_*.cpp),
// and help lists them in that order.
//
// A command whose answer is an event of the job (`mode`, `checkpoint`, `watch`, ...) is *followed*:
// the session keeps nothing between two lines and must not wait, for a daemon's REPL answers
// everybody. So a reply that is not the whole answer says which line to ask next, `_follow NAME JOB
// EVENT LEFT`: what JOB has said behind event EVENT. run_line() is the loop around it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/repl/request.hpp"
#include "actors/view/about.hpp"

namespace troupe {

constexpr std::uint64_t repl_patience = std::chrono::seconds(60) / repl_ask_every;
constexpr std::uint64_t repl_long_patience = 3 * repl_patience;  // nodes may have to open their data first, disks may be slow

struct repl_following {
  const char* name;
  // What an event says to who waits for it; nothing: not what is waited for. `said`: all that this
  // asking has read.
  std::optional<repl_reply> (*handle_event)(const repl_request& r, const repl_event& e, const std::vector<repl_event>& said);
  std::uint64_t patience = repl_patience;  // askings after which it is given up: where LEFT begins
  bool from_the_start = false;             // every asking reads all again that was said since the command
  bool endless =
      false;  // each event is a line, until the job is over or (at a terminal) a line is typed; LEFT counts lines, 0: all
};

// What stands before the word that is to be completed, the command first; and what there is to
// name.
struct repl_typed {
  const repl_arguments& before;
  const repl_view& view;
};
// Whatever may stand there: the beginning of the word is looked at by who asks.
using repl_choices = std::vector<std::string> (*)(const repl_typed&);

struct repl_command {
  repl_command_help help;  // name, arguments, what it does
  repl_reply (*run)(const repl_request&);
  const repl_following* follow = nullptr;    // null: it is answered at once
  std::vector<repl_choices> completes = {};  // by argument; null: nothing is known of that one
  repl_choices completes_rest = nullptr;     // every argument behind those
  bool takes_file = false;                   // the first argument is a file's name: its text comes with the line (files.cpp)
  right needs = right::all;                  // who may say it on a daemon: a row that does not say so is for admin alone
};

// The families, in the order of help.
std::vector<repl_command> repl_commands_that_look();
std::vector<repl_command> repl_commands_to_jobs();
std::vector<repl_command> repl_commands_that_change();
std::vector<repl_command> repl_commands_that_ask();
std::vector<repl_command> repl_commands_that_harm();
std::vector<repl_command> repl_commands_of_sessions();

const std::vector<repl_command>& repl_table();
const repl_command* find_repl_command(const std::string& name);
const repl_following* find_repl_following(const std::string& name);

// What runs a row that says one word, its name, to a job: answered when it has been passed on; or,
// followed, when it is known what came of it, as well.
repl_reply repl_tell(const repl_request& r);
repl_reply repl_tell_and_wait(const repl_request& r);
// Passes `c` on to the job's coordinator, and follows the job's events as the row says until one
// answers. No job: `error` says why.
repl_reply repl_tell_and_follow(const repl_request& r, const std::optional<std::uint32_t>& job, const std::string& error,
                                const command& c);
// Follows a job from event `from` on: `_follow`'s first asking.
repl_reply repl_follow_from(const repl_following& f, std::uint32_t job, std::uint64_t from, std::uint64_t left,
                            std::string text = {});

// What arguments may be (complete.cpp).
namespace repl_choice {
std::vector<std::string> commands(const repl_typed& t);
std::vector<std::string> jobs(const repl_typed& t);  // those that are not over
std::vector<std::string> layers(const repl_typed& t);
std::vector<std::string> nodes(const repl_typed& t);
std::vector<std::string> modes(const repl_typed& t);
// The modes of the job, plugins' included; of no job: those of this build.
const std::vector<repl_mode>& known_modes(const repl_view& v);
}  // namespace repl_choice

}  // namespace troupe
