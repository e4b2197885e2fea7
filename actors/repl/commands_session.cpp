// Commands about the session itself: help, quit.
#include "actors/repl/command.hpp"
#include "runtime/base/wording.hpp"

namespace troupe {
namespace {

using kind = repl_reply::kind;

repl_reply run_help(const repl_request& r) {
  if (r.args.empty()) return {kind::ok, repl_help_text(r.json, ""), {}};
  if (r.args.size() > 1) return r.usage("usage: help [COMMAND]");
  if (find_repl_command(r.args[0])) return {kind::ok, repl_help_text(r.json, r.args[0]), {}};
  return r.usage("no command " + in_quotes(r.args[0]) + did_you_mean(r.args[0], repl_choice::commands({r.args, {}})));
}

repl_reply run_quit(const repl_request&) { return {kind::quit, {}, {}}; }

}  // namespace

std::vector<repl_command> repl_commands_of_sessions() {
  return {
      {.help = {"help",
                "[COMMAND]",
                "list the commands, or describe COMMAND; `?` is the same",
                {{"COMMAND", "a command"}},
                {{"help", "lists all commands"}, {"help set", "describes set"}, {"? set", "the same"}}},
       .run = run_help,
       .completes = {repl_choice::commands},
       .needs = right::look},
      {.help = {"quit",
                "",
                "exit, as Ctrl-D does; jobs of a cluster and of `troupe train` continue, a job of this process stops with a "
                "checkpoint",
                {},
                {{"quit", "leaves the REPL"}}},
       .run = run_quit,
       .needs = right::look},
  };
}

}  // namespace troupe
