// `troupe fmt FILE...`: writes job, cluster and simulation files in one layout, with their
// comments.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/cli/command.hpp"
#include "apps/commands/commands.hpp"
#include "runtime/node/config/toml_layout.hpp"
#include "runtime/node/node_tables.hpp"
#include "runtime/record/file_io.hpp"

namespace troupe {
namespace {

struct fmt_arguments {
  std::vector<std::string> files;
  bool check = false;
};

// The keys of simulation files have no order.
layout_order order_of_file(const std::string& text, const std::string& file) {
  static const auto of_jobs = order_of_job_keys(node_tables()), of_clusters = order_of_cluster_keys();
  const auto root = parse_document(text, file);
  const auto has = [&](const char* key) { return root && find_entry(*root, key) != nullptr; };
  if (has("cluster") || has("node")) return of_clusters;
  if (has("run") || has("network") || has("compute") || has("fault")) return {};
  return of_jobs;
}

int report(const std::string& file, bool changed, const fmt_arguments& a, const output& out) {
  if (out.json()) out.object({{"event", "fmt"}, {"file", file}, {"changed", changed}, {"written", changed && !a.check}});
  if (changed && !a.check) out.text(file + ": written\n");
  if (changed && a.check && !out.json()) out.text(file + ": its layout is another; try: troupe fmt " + file + "\n");
  return changed && a.check ? exit_failed : exit_done;
}

int fmt_one(const std::string& file, const fmt_arguments& a, const output& out) {
  const auto text = read_text(file);
  if (!text) return out.wrong(text.error());
  const auto result = laid_out(*text, file, order_of_file(*text, file));
  if (!result) return out.wrong(result.error());
  if (*result == *text || a.check) return report(file, *result != *text, a, out);
  std::error_code ec;
  const auto mode = std::filesystem::status(file, ec).permissions();
  if (const auto written = write_file_atomically(file, {{result->data(), result->size()}}); !written)
    return out.failed(file, written.error().text);
  std::filesystem::permissions(file, mode, ec);
  return report(file, true, a, out);
}

int run_fmt(const fmt_arguments& a, const output& out) {
  int worst = exit_done;
  for (const auto& f : a.files) worst = std::max(worst, fmt_one(f, a, out));
  return worst;
}

void add_options(CLI::App& c, fmt_arguments& a) {
  c.add_option("FILE", a.files, "Job, cluster, network, fault or scenario files")->required()->option_text("...");
  c.add_flag("--check", a.check, "Write nothing; exit code 1 if the layout of a file is another");
  json_option(c);
}

}  // namespace

cli_command fmt_command() {
  return make_command<fmt_arguments>("fmt", "Lay out job, cluster and simulation files; comments stay",
                                     "  troupe fmt job.toml\n  troupe fmt --check configs/jobs/*.toml configs/clusters/*.toml",
                                     add_options, run_fmt);
}

}  // namespace troupe
