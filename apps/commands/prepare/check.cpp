// `troupe check FILE...`: validates files without running anything.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "apps/cli/command.hpp"
#include "apps/commands/job.hpp"
#include "runtime/node/config/cluster_file.hpp"
#include "runtime/node/config/document.hpp"
#include "runtime/node/config/job_file.hpp"
#include "runtime/node/config/prepare_text.hpp"
#include "runtime/node/config/resolved_job.hpp"
#include "runtime/node/config/sim_file.hpp"
#include "runtime/node/node_tables.hpp"

namespace troupe {
namespace {

struct check_arguments {
  std::vector<std::string> files;
  std::vector<std::string> overrides;
  std::string run_dir;
  bool load_plugins = false;
  bool resolved = false;
};

enum class file_kind : std::uint8_t { job, cluster, simulation };

// A cluster file has [cluster] or [[node]]. Files for simulations are networks, faults and
// scenarios. A file that cannot be read counts as a job file, whose reader says why.
file_kind kind_of_file(const std::string& path) {
  const auto text = read_text(path);
  if (!text) return file_kind::job;
  const auto root = parse_document(*text, path);
  if (!root) return file_kind::job;
  const auto has = [&](const char* key) { return find_entry(*root, key) != nullptr; };
  if (has("cluster") || has("node")) return file_kind::cluster;
  if (has("run") || has("network") || has("compute") || has("fault")) return file_kind::simulation;
  return file_kind::job;
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
  const auto kind = kind_of_file(file);
  if (kind == file_kind::cluster) {
    auto read = read_cluster_file(file);
    if (!read) return out.wrong(read.error());
    const auto& c = *read;
    return good("cluster", "cluster " + c.name + " of " + std::to_string(c.nodes.size()) + " nodes\n",
                {{"name", c.name}, {"nodes", c.nodes.size()}});
  }
  if (kind == file_kind::simulation) {
    auto read = read_sim_file(file);
    if (!read) return out.wrong(read.error());
    const auto& s = *read;
    return good("simulation", "simulation\n", {{"scenario", s.run.has_value()}, {"faults", s.faults.list.size()}});
  }
  job_arguments a;
  a.file = file;
  a.overrides = how.overrides;
  a.load_plugins = how.load_plugins;
  auto loaded = load_job_to_train(a);
  if (!loaded) return out.wrong(loaded.error());
  const auto& j = **loaded;
  return good("job", job_summary(j),
              {{"name", j.spec.name}, {"layers", j.graph.layers.size()}, {"parameters", j.graph.parameter_count}});
}

// Prints the job file with every key. Unlike the checks, it needs neither the data nor the nodes of
// the job.
int print_resolved(const std::string& file, const check_arguments& how, const output& out) {
  if (kind_of_file(file) != file_kind::job) return out.wrong(file, "--resolved is for job files; check this file without it");
  auto text = read_config_text(file);
  if (!text) return out.wrong(text.error());
  const auto all = with_plugins({*text, file, how.overrides, {}, how.load_plugins}, std::make_shared<const tables>(node_tables()));
  if (!all) return out.wrong(all.error());
  auto spec = parse_job(*text, file, **all, how.overrides);
  if (!spec) return out.wrong(spec.error());
  const auto resolved = resolved_job_text(*spec, **all);
  if (out.json()) out.object({{"event", "resolved"}, {"file", file}, {"text", resolved}});
  out.text(resolved);
  return exit_done;
}

int run_check(const check_arguments& given, const output& out) {
  auto a = given;
  for (auto& file : a.files) {
    const auto run = run_named(file, a.run_dir);
    if (!run) return wrong_file(out, run.error());
    if (!run->empty()) file = run_job_file(*run).string();
  }
  if (a.resolved && a.files.size() > 1) return out.wrong("command line", "--resolved takes one job file; run it for each file");
  if (a.resolved) return print_resolved(a.files.front(), a, out);
  int worst = exit_done;
  for (const auto& f : a.files) worst = std::max(worst, check_one(f, a, out));
  return worst;
}

void add_options(CLI::App& c, check_arguments& a) {
  c.add_option("FILE", a.files, "Job, cluster, network, fault or scenario files, or runs")->required()->option_text("...");
  c.add_option("--set", a.overrides, "Override a key of the job files; may be repeated")
      ->option_text("KEY=VALUE")
      ->allow_extra_args(false);
  load_plugins_option(c, a.load_plugins, "a job file");
  c.add_flag("--resolved", a.resolved, "Print the job file with every key and its value: defaults, overrides, options");
  runs_folder_option(c, a.run_dir);
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
