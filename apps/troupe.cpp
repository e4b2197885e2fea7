// troupe: the command-line program. This file has the table of commands; each command has a file in
// commands/.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "actors/repl/repl.hpp"
#include "apps/commands/commands.hpp"
#include "apps/troupe_usage.hpp"
#include "runtime/base/version.hpp"

namespace troupe {
namespace {

constexpr const char* about =
    "Troupe trains neural networks with actors, on one machine or on a cluster.\n"
    "\n"
    "A job is a TOML file with data, model and training options. To get started:\n"
    "  troupe new JOB                                    write JOB.toml, with a comment for each key\n"
    "  troupe check JOB.toml                             validate the job file\n"
    "  troupe train JOB.toml --out net.safetensors       train it\n"
    "  troupe test JOB.toml --weights net.safetensors    evaluate the weights\n";
constexpr const char* footer =
    "Exit code: 0 done, 1 failed while running or preempted (stopped with a checkpoint), 2 wrong usage or configuration.\n"
    "With --json every command writes one JSON object per line to stdout, and nothing else.\n"
    "Run `troupe COMMAND --help` for the options of a command.";

std::vector<cli_command> commands() {
  return {new_command(),          check_command(),     plan_command(),        time_command(),         train_command(),
          resume_run_command(),   test_command(),      predict_command(),     runs_command(),         plot_command(),
          sql_command(),          attach_command(),    fetch_command(),       jobs_command(),         sim_command(),
          init_command(),         sample_command(),    pack_command(),        unroll_command(),       layers_command(),
          modes_command(),        reference_command(), check_layer_command(), init_cluster_command(), certs_command(),
          device_query_command(), diagnose_command(),  critical_command()};
}

// Returns an error if `text` does not fit the number type of an option; CLI11 would replace it by
// the nearest number that fits. Empty if it fits, or is not a number, which CLI11 refuses itself.
std::string why_not_represented(const std::string& text, const std::string& type) {
  errno = 0;
  bool good = true;
  if (type.starts_with("FLOAT"))
    good = std::isfinite(std::strtod(text.c_str(), nullptr));
  else if (type.starts_with("UINT"))
    good = !text.starts_with("-") && (std::strtoull(text.c_str(), nullptr, 0), errno != ERANGE);
  else
    good = (std::strtoll(text.c_str(), nullptr, 0), errno != ERANGE);
  return good ? std::string() : text + " is out of range";
}

void refuse_what_cannot_be_represented(CLI::App& c) {
  for (auto* o : c.get_options()) {
    const auto type = o->get_type_name();
    if (type.starts_with("INT") || type.starts_with("UINT") || type.starts_with("FLOAT"))
      o->check([type](const std::string& text) { return why_not_represented(text, type); });
  }
}

void add(CLI::App& app, const cli_command& entry, command_run& chosen) {
  auto* c = app.add_subcommand(entry.name, entry.about);
  if (!entry.examples.empty()) c->footer("Examples:\n" + entry.examples);
  c->callback([&chosen, run = entry.add_options(*c)] { chosen = run; });
  refuse_what_cannot_be_represented(*c);
}

// Reports a wrong command line. The text comes from CLI11, except for unknown commands and options.
// CLI11 also reports --help and --version in this way.
int usage_error(const CLI::App& app, const CLI::ParseError& e, const std::vector<std::string>& arguments, const output& out) {
  if (e.get_exit_code() == 0) return app.exit(e) == 0 ? exit_done : exit_wrong;
  const auto unknown = unknown_argument(app, arguments);
  std::string hint = "try: troupe --help";
  for (const auto* c : app.get_subcommands()) hint = "try: troupe " + c->get_name() + " --help";
  return out.wrong("command line", (unknown.empty() ? std::string(e.what()) : unknown) + " (" + hint + ")");
}

int run(int argc, char** argv) {
  CLI::App app{about, "troupe"};
  app.footer(footer);
  app.set_version_flag("--version", std::string("troupe ") + troupe_version);
  app.require_subcommand(1);
  app.get_formatter()->column_width(28);
  command_run chosen;
  for (const auto& entry : commands()) add(app, entry, chosen);
  // Listed here for --help; repl_main() parses its command line.
  app.add_subcommand(
      "repl", "Control a cluster or run jobs in this process interactively: submit, status, pause, set, ... (troupe repl --help)");
  if (argc > 1 && std::strcmp(argv[1], "repl") == 0) return repl_main({argv + 2, argv + argc});
  // Determined before parsing, because errors of the command line are printed as JSON too.
  const bool as_json = std::any_of(argv, argv + argc, [](const char* a) { return std::strcmp(a, "--json") == 0; });
  const output out(as_json);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return usage_error(app, e, {argv + 1, argv + argc}, out);
  }
  try {
    return chosen(out);
  } catch (const std::exception& e) {
    return out.failed("troupe", e.what());
  }
}

}  // namespace
}  // namespace troupe

int main(int argc, char** argv) {
  try {
    return troupe::with_stdout(troupe::run(argc, argv));
  } catch (...) {
    std::fputs("troupe: unexpected failure\n", stderr);
    return troupe::exit_failed;
  }
}
