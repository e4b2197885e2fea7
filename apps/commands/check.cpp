// `troupe check FILE...`: validates files without running anything.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/command.hpp"
#include "apps/troupe_job.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/config/cluster_file.hpp"
#include "runtime/node/config/document.hpp"
#include "runtime/node/config/job_file.hpp"
#include "runtime/node/config/plugin.hpp"
#include "runtime/node/config/resolved_job.hpp"
#include "runtime/node/config/sim_file.hpp"
#include "runtime/node/node_tables.hpp"

namespace troupe {
namespace {

struct check_arguments {
  std::vector<std::string> files;
  std::vector<std::string> overrides;
  bool load_plugins = false;
  bool resolved = false;
};

// A cluster file has [cluster] or [[node]].
bool is_cluster_file(const std::string& path) {
  auto text = read_text(path);
  if (!text) return false;
  const auto root = parse_document(*text, path);
  return root && (find_entry(*root, "cluster") || find_entry(*root, "node"));
}

// Files for simulations: networks, faults and scenarios.
bool is_sim_file(const std::string& path) {
  auto text = read_text(path);
  if (!text) return false;
  const auto root = parse_document(*text, path);
  const auto has = [&](const char* key) { return find_entry(*root, key) != nullptr; };
  return root && (has("run") || has("network") || has("compute") || has("fault"));
}

// Returns an error if the job names plugins. Plugins run code when they are loaded, so files from
// others must be checkable without loading them.
diagnostics plugins_of(const std::string& file, const std::vector<std::string>& overrides) {
  auto text = read_config_text(file);
  if (!text) return std::move(text).error();
  auto names = read_plugins(*text, file, overrides);
  if (!names) return std::move(names).error();
  const auto& all = *names;
  diagnostics found;
  if (all.empty()) return found;
  diagnostic d;
  d.at.file = file;
  d.message =
      "the job loads plugins, which are code, so it is not checked further; use `troupe check --load-plugins` to run them: " +
      joined(all);
  found.push_back(std::move(d));
  return found;
}

int check_one(const std::string& file, const check_arguments& how, const output& out) {
  const auto good = [&](const char* kind, const std::string& text, nlohmann::ordered_json more) {
    nlohmann::ordered_json o{{"event", "check"}, {"file", file}, {"kind", kind}};
    o.update(more);
    if (out.json())
      out.object(o);
    else
      out.text(file + ": ok: " + text);
    return int{exit_done};
  };
  if (is_cluster_file(file)) {
    auto read = read_cluster_file(file);
    if (!read) return out.wrong(read.error());
    const auto& c = *read;
    return good("cluster", "cluster " + c.name + " of " + std::to_string(c.nodes.size()) + " nodes\n",
                {{"name", c.name}, {"nodes", c.nodes.size()}});
  }
  if (is_sim_file(file)) {
    auto read = read_sim_file(file);
    if (!read) return out.wrong(read.error());
    const auto& s = *read;
    return good("simulation", "simulation\n", {{"scenario", s.run.has_value()}, {"faults", s.faults.list.size()}});
  }
  if (!how.load_plugins)
    if (auto bad = plugins_of(file, how.overrides); !bad.empty()) return out.wrong(bad);
  job_arguments a;
  a.file = file;
  a.overrides = how.overrides;
  auto loaded = load_job_to_train(a);
  if (!loaded) return out.wrong(loaded.error());
  const auto& j = **loaded;
  return good("job", job_summary(j),
              {{"name", j.spec.name}, {"layers", j.graph.layers.size()}, {"parameters", j.graph.parameter_count}});
}

// Prints the job file with every key. Unlike the checks, it needs neither the data nor the nodes of
// the job.
int print_resolved(const std::string& file, const check_arguments& how, const output& out) {
  if (is_cluster_file(file) || is_sim_file(file)) return out.wrong(file, "--resolved is for job files; check this file without it");
  if (!how.load_plugins)
    if (auto bad = plugins_of(file, how.overrides); !bad.empty()) return out.wrong(bad);
  auto text = read_config_text(file);
  if (!text) return out.wrong(text.error());
  auto plugins = read_plugins(*text, file, how.overrides);
  if (!plugins) return out.wrong(plugins.error());
  auto all = node_tables();
  if (auto loaded = load_plugins(*plugins, all); !loaded) return out.wrong(file, loaded.error().message);
  auto spec = parse_job(*text, file, all, how.overrides);
  if (!spec) return out.wrong(spec.error());
  const auto resolved = resolved_job_text(*spec, all);
  if (out.json()) out.object({{"event", "resolved"}, {"file", file}, {"text", resolved}});
  out.text(resolved);
  return exit_done;
}

int run_check(const check_arguments& a, const output& out) {
  if (a.resolved && a.files.size() > 1) return out.wrong("command line", "--resolved takes one job file; run it for each file");
  if (a.resolved) return print_resolved(a.files.front(), a, out);
  int worst = exit_done;
  for (const auto& f : a.files) worst = std::max(worst, check_one(f, a, out));
  return worst;
}

void add_options(CLI::App& c, check_arguments& a) {
  c.add_option("FILE", a.files, "Job, cluster, network, fault or scenario files")->required()->option_text("...");
  c.add_option("--set", a.overrides, "Override a key of the job files; may be repeated")
      ->option_text("KEY=VALUE")
      ->allow_extra_args(false);
  c.add_flag("--load-plugins", a.load_plugins, "Load the plugins that the job files name, which runs their code");
  c.add_flag("--resolved", a.resolved, "Print the job file with every key and its value: defaults, overrides, options");
  json_option(c);
}

}  // namespace

cli_command check_command() {
  return make_command<check_arguments>("check", "Validate job, cluster and simulation files, and report all errors",
                                       "  troupe check configs/jobs/*.toml configs/clusters/*.toml\n"
                                       "  troupe check --resolved job.toml --set train.dynamics.lr=0.1 > full.toml",
                                       add_options, run_check);
}

}  // namespace troupe
