// `troupe diagnose [RUN | --cluster FILE]`: whether a job is stuck, and what holds it up.
#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>

#include "actors/control/client/cluster_recording.hpp"
#include "actors/repl/cluster_view.hpp"
#include "actors/repl/diagnosis.hpp"
#include "actors/repl/run_socket.hpp"
#include "apps/cli/command.hpp"
#include "apps/commands/commands.hpp"
#include "runtime/node/config/cluster_file.hpp"
#include "runtime/node/runs/run_info.hpp"

namespace troupe {
namespace {

struct diagnose_arguments {
  std::string run, cluster, trace;
};

int show(const output& out, const std::string& text, bool stuck) {
  out.lines(text + "\n");
  return stuck ? exit_failed : exit_done;
}

int diagnose_run(const diagnose_arguments& a, const output& out) {
  const auto folder = find_run(default_runs_folder(), a.run);
  if (!folder) return out.wrong("RUN", folder.error().to_string());
  const auto lines = connect_run(run_socket_file(*folder), out.json());
  if (!lines) return out.failed(a.run, lines.error().text);
  const auto said = (*lines)("diagnose", nullptr);
  if (!a.trace.empty()) {
    const auto written = (*lines)("trace last \"" + std::filesystem::absolute(a.trace).string() + "\"", nullptr);
    if (written.how != repl_reply::kind::ok) return out.failed(a.trace, written.text);
    out.lines(written.text + "\n");
  }
  return show(out, said.text, said.how != repl_reply::kind::ok);
}

int diagnose_cluster(const diagnose_arguments& a, const output& out) {
  const auto cluster = read_cluster_file(a.cluster);
  if (!cluster) return out.wrong(cluster.error());
  node_links nodes(*cluster, std::chrono::seconds(3));
  if (nodes.connected() == 0) return out.failed(a.cluster, "no node answers: " + nodes.troubles());
  const auto found = look_at_cluster(nodes, cluster->name, coordinator_of(*cluster).node);
  const auto d = diagnose(found.view, found.usual_step);
  if (!a.trace.empty()) {
    const auto written = write_latest(a.trace, nodes, repl_backend::latest_span);
    if (!written) return out.failed(a.trace, written.error().text);
    if (!out.json()) out.text(trace_summary_text(*written) + "\n");
  }
  if (out.json()) return show(out, diagnosis_object(found.view, d).dump(), d.stuck());
  const auto* more = d.roles == 0 ? " (a job that is queued or waits for its nodes has no roles yet: see `jobs` in the REPL)" : "";
  return show(out, diagnosis_text(found.view, d) + more, d.stuck());
}

int run_diagnose(const diagnose_arguments& a, const output& out) {
  if (a.run.empty() == a.cluster.empty()) return out.wrong("diagnose", "give RUN or --cluster FILE");
  if (!a.trace.empty())
    if (const auto fine = check_writable_file(a.trace); !fine) return out.wrong(a.trace, fine.error().text);
  return a.cluster.empty() ? diagnose_run(a, out) : diagnose_cluster(a, out);
}

void add_diagnose_options(CLI::App& c, diagnose_arguments& a) {
  c.add_option("RUN", a.run, "A run of `troupe train` in progress: its number, its name or its folder");
  file_option(c, "--cluster", a.cluster,
              "Cluster file; asks each node by itself, also if the coordinator's daemon does not answer");
  file_option(c, "--trace", a.trace, "Write what the roles did in the last 30 s to this file, a trace for ui.perfetto.dev");
  json_option(c);
}

}  // namespace

cli_command diagnose_command() {
  return make_command<diagnose_arguments>("diagnose", "Say whether a job is stuck, and what holds it up",
                                          "  troupe diagnose 12\n"
                                          "  troupe diagnose --cluster cluster.toml --trace last.pftrace\n"
                                          "The exit code is 1 if something is stuck.",
                                          add_diagnose_options, run_diagnose);
}

}  // namespace troupe
