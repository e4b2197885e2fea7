#include "apps/troupe_command_line.hpp"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <system_error>
#include <utility>
#include <vector>

#include "apps/commands/commands.hpp"
#include "runtime/base/version.hpp"

namespace troupe {
namespace {

constexpr const char* troupe_about =
    "Troupe trains neural networks with actors, on one machine or on a cluster.\n"
    "\n"
    "A job is a TOML file with data, model and training options. To get started:\n"
    "  troupe new JOB                                    write JOB.toml, with a comment for each key\n"
    "  troupe check JOB.toml                             validate the job file\n"
    "  troupe train JOB.toml --out net.safetensors       train it\n"
    "  troupe test JOB.toml --weights net.safetensors    evaluate the weights\n";
constexpr const char* troupe_footer =
    "Exit code: 0 done, 1 failed while running or preempted (stopped with a checkpoint), 2 wrong usage or configuration.\n"
    "With --json every command writes one JSON object per line to stdout, and nothing else.\n"
    "Run `troupe COMMAND --help` for the options of a command.";

struct command_group {
  const char* title;
  std::vector<cli_command> commands;
};

std::vector<command_group> command_groups() {
  return {
      {"Train and continue",
       {train_command(), resume_run_command(), test_command(), predict_command(), sample_command(), serve_command()}},
      {"Look",
       {runs_command(), plot_command(), sql_command(), plan_command(), time_command(), layers_command(), modes_command(),
        reference_command(), device_query_command(), doctor_command(), diagnose_command(), critical_command(), replay_command()}},
      {"Prepare",
       {new_command(), check_command(), fmt_command(), init_command(), data_command(), pack_command(), unroll_command(),
        import_command(), export_command()}},
      {"Cluster",
       {repl_command_entry(), jobs_command(), attach_command(), fetch_command(), init_cluster_command(), certs_command()}},
      {"Develop", {sim_command(), check_layer_command()}}};
}

// Independent of the locale. "nan" and "inf" are out of range.
std::string why_not_real(const std::string& text) {
  double v = 0;
  const auto* end = text.data() + text.size();
  const auto r = std::from_chars(text.data() + (text.starts_with('+') ? 1 : 0), end, v);
  if (r.ec == std::errc::result_out_of_range || (r.ec == std::errc() && !std::isfinite(v))) return text + " is out of range";
  return r.ec == std::errc() && r.ptr == end ? std::string() : text + " is not a number";
}

// Returns an error if `text` does not fit the number type of an option; CLI11 would replace it by
// the nearest number that fits. Empty if it fits, or is not an integer, which CLI11 refuses itself.
std::string why_not_represented(const std::string& text, const std::string& type) {
  errno = 0;
  bool good = true;
  if (type.starts_with("FLOAT")) return why_not_real(text);
  if (type.starts_with("UINT"))
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

void add_command(CLI::App& app, const cli_command& entry, const std::string& group, command_run& chosen) {
  auto* c = app.add_subcommand(entry.name, entry.about)->group(group);
  if (!entry.examples.empty()) c->footer("Examples:\n" + entry.examples);
  c->callback([&chosen, run = entry.add_options(*c)] { chosen = run; });
  refuse_what_cannot_be_represented(*c);
}

}  // namespace

std::unique_ptr<CLI::App> make_command_line(command_run& chosen) {
  auto app = std::make_unique<CLI::App>(troupe_about, "troupe");
  app->footer(troupe_footer);
  app->set_version_flag("--version", std::string("troupe ") + troupe_version);
  app->require_subcommand(1);
  app->get_formatter()->column_width(28);
  for (const auto& group : command_groups())
    for (const auto& entry : group.commands) add_command(*app, entry, group.title, chosen);
  return app;
}

}  // namespace troupe
