// `troupe repl`: the interactive console of a daemon, of a run in progress, or of this process.
#include "actors/repl/repl.hpp"

#include <CLI/CLI.hpp>
#include <optional>

#include "apps/cli/command.hpp"

namespace troupe {
namespace {

struct repl_command_arguments {
  repl_target target;
  std::optional<std::string> commands;
  bool check = false;
};

int run_repl_command(const repl_command_arguments& a, const output& out) {
  repl_options o;
  o.commands = a.commands.value_or("");
  o.has_commands = a.commands.has_value();
  o.json = out.json();
  o.check = a.check;
  return repl_main(a.target, o);
}

void add_options(CLI::App& c, repl_command_arguments& a) {
  c.add_option("TARGET", a.target.address, "HOST:PORT of a daemon, or a run: its number, its name or its folder")
      ->option_text("[HOST:PORT|RUN]");
  c.add_option("--tls", a.target.tls, "Folder with ca.pem, client.pem and client.key")->option_text("DIR");
  file_option(c, "--cluster", a.target.cluster,
              "Cluster file, which names the certificates and the daemons; connects to\nthe coordinator unless --node is given");
  c.add_option("--node", a.target.node, "Node of the cluster file to connect to")->option_text("NODE");
  c.add_option("-c", a.commands, "Run these commands, separated by ';', and exit")->option_text("COMMANDS");
  c.add_flag("--check", a.check, "Only parse the commands of -c or stdin: names, quotes, number of arguments");
  json_option(c);
}

}  // namespace

cli_command repl_command_entry() {
  return make_command<repl_command_arguments>(
      "repl", "Control a cluster, a run or jobs of this process interactively: submit, status, pause, set, ...",
      "  troupe repl --cluster cluster.toml\n  troupe repl --cluster cluster.toml -c \"nodes; jobs\"\n  troupe repl 7\n"
      "`help` in the REPL lists its commands. Without TARGET, --cluster and --tls, jobs run in this process.",
      add_options, run_repl_command);
}

}  // namespace troupe
