// `troupe reference job|cluster`: prints every key of a file as markdown, from the same tables that
// the file's reader uses. `troupe reference events`: prints the JSON schema of the events of a job.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "apps/command.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/config/plugin.hpp"
#include "runtime/node/config/reference.hpp"
#include "runtime/node/events/event_json.hpp"
#include "runtime/node/node_tables.hpp"

namespace troupe {
namespace {

struct reference_arguments {
  std::string what;
  std::vector<std::string> plugins;
};

int run_reference(const reference_arguments& a, const output& out) {
  const std::vector<std::string> files{"job", "cluster", "events"};
  if (std::find(files.begin(), files.end(), a.what) == files.end())
    return out.wrong("command line", "there is no reference for " + in_quotes(a.what) + did_you_mean(a.what, files) +
                                         " (available: " + joined(files) + ")");
  if (a.what == "events") {
    const auto schema = event_schema();
    if (out.json()) out.object({{"event", "reference"}, {"of", a.what}, {"schema", schema}});
    out.text(schema.dump(2) + "\n");
    return exit_done;
  }
  auto all = node_tables();
  if (auto r = load_plugins(a.plugins, all); !r) return out.wrong("--plugin", r.error().message);
  const auto page = a.what == "job" ? job_reference(all) : cluster_reference();
  if (out.json()) out.object({{"event", "reference"}, {"of", a.what}, {"markdown", page}});
  out.text(page);
  return exit_done;
}

void add_options(CLI::App& c, reference_arguments& a) {
  c.add_option("FILE", a.what, "job, cluster or events")->required()->option_text("job|cluster|events");
  c.add_option("--plugin", a.plugins, "Include the entries of this plugin; may be repeated")
      ->option_text("FILE")
      ->allow_extra_args(false);
  json_option(c);
}

}  // namespace

cli_command reference_command() {
  return make_command<reference_arguments>(
      "reference", "Print every key of a job or cluster file, as markdown, or the JSON schema of events",
      "  troupe reference job\n  troupe reference job --plugin libswish.so > FILE.md", add_options, run_reference);
}

}  // namespace troupe
