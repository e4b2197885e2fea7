// `troupe critical TRACE`: what bounds a step of a traced job, and what halving it would give.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/cli/command.hpp"
#include "apps/commands/commands.hpp"
#include "runtime/base/text_table.hpp"
#include "runtime/critical/causes.hpp"
#include "runtime/node/config/cluster_file.hpp"
#include "runtime/node/trace_jobs.hpp"
#include "runtime/trace/trace_file.hpp"

namespace troupe {
namespace {

struct critical_arguments : job_arguments {
  std::string trace, cluster;
  unsigned threads = 0, shown = 10;
};

std::string ms(double seconds) { return fixed(1e3 * seconds, 3); }

diagnostics no_job(const std::string& trace) {
  diagnostic d;
  d.at.file = trace;
  d.message = "the trace does not say which job it is of: add JOB, and --cluster FILE if it ran on a cluster";
  return diagnostics(1, d);
}

// The job that the trace has, or that the command line names.
expected<trace_job, diagnostics> job_for(const critical_arguments& a, const trace_file& t) {
  if (a.file.empty() && t.job.text.empty()) return unexpected(no_job(a.trace));
  if (a.file.empty()) return t.job;
  std::vector<node_spec> nodes;
  if (!a.cluster.empty()) {
    auto cluster = read_cluster_file(a.cluster);
    if (!cluster) return unexpected(std::move(cluster).error());
    nodes = std::move(cluster->nodes);
  }
  auto job = load_job(a, nodes);
  if (!job) return unexpected(std::move(job).error());
  return trace_job_of(**job, a.threads);
}

void print(const what_if& w, const std::vector<step_cause>& causes, const critical_arguments& a, const output& out) {
  const auto now = w.simulated_step();
  const auto gain = [&](const step_cause& c) { return 1 - c.step_seconds / now; };
  if (out.json()) {
    nlohmann::ordered_json o{{"event", "critical"},
                             {"step_seconds", w.seen().step_seconds},
                             {"steps", w.seen().steps},
                             {"simulated_step_seconds", now},
                             {"causes", nlohmann::ordered_json::array()}};
    for (const auto& c : causes)
      o["causes"].push_back({{"name", c.name},
                             {"parts", c.parts},
                             {"busy_seconds", c.busy},
                             {"halved_step_seconds", c.step_seconds},
                             {"gain", gain(c)}});
    return out.object(o);
  }
  text_table t({"twice as fast", "busy ms", "step ms", "gain"});
  for (std::size_t i = 0; i < std::min<std::size_t>(causes.size(), a.shown); ++i)
    t.add({causes[i].name, ms(causes[i].busy), ms(causes[i].step_seconds), fixed(100 * gain(causes[i]), 1) + " %"});
  const auto& c = causes.front();
  out.text(std::to_string(w.seen().steps) + " steps of " + ms(w.seen().step_seconds) + " ms in the trace; " + ms(now) +
           " ms in its simulation\n\n" + t.text() + "\n" +
           (gain(c) < 0.01
                ? std::string("nothing in particular bounds the step: halving one role, layer or link gains less than 1 %\n")
                : c.name + " bounds the step: twice as fast, it would take " + ms(c.step_seconds) + " ms instead of " + ms(now) +
                      " ms\n"));
  if (std::abs(now / w.seen().step_seconds - 1) > 0.1)
    out.remark("the simulation does not reproduce the trace's step within 10 %: read the gains with care");
}

int run_critical(const critical_arguments& a, const output& out) {
  const auto t = read_trace_file(a.trace);
  if (!t) return out.wrong(a.trace, t.error().text);
  const auto described = job_for(a, *t);
  if (!described) return out.wrong(described.error());
  auto job = job_of_trace(*described, a.trace, a.file.empty() ? a.load_of_run : a.load_plugins);
  if (!job) return out.wrong(job.error());
  auto seen = observed_in(*t);
  if (seen.steps < 3) return out.failed(a.trace, "the trace has fewer than four whole steps: record for longer");
  const what_if w(job->job, std::move(seen), a.threads > 0 ? a.threads : job->threads);
  if (w.simulated_step() <= 0) return out.failed(a.trace, "the job does not advance in the simulation: is the trace of this job?");
  const auto causes = step_causes(w);
  if (causes.empty()) return out.failed(a.trace, "the trace has no tasks of the job's roles: is it of this job?");
  print(w, causes, a, out);
  return exit_done;
}

void add_critical_options(CLI::App& c, critical_arguments& a) {
  c.add_option("TRACE", a.trace, "Trace file of `troupe train`, `troupe sim` or the REPL")->required()->option_text("(required)");
  job_options(c, a);
  c.get_option("JOB")->required(false);
  file_option(c, "--cluster", a.cluster, "With JOB: the cluster file of the nodes that it ran on");
  c.get_option("--load-plugins")->description("Load the plugins that the trace or a run's job.toml names, which runs their code");
  threads_option(c, a.threads, "as the trace says");
  c.add_option("--top", a.shown, "Number of causes to print (default: 10)")->option_text("N")->check(CLI::Range(1u, 1000u));
}

}  // namespace

cli_command critical_command() {
  return make_command<critical_arguments>(
      "critical", "Show which layer, loader, shard or link bounds a step, and what halving it would give",
      "  troupe critical lenet.pftrace\n"
      "  troupe critical lenet.pftrace configs/jobs/lenet_fashion.toml --cluster cluster.toml\n"
      "The job's roles run in the simulator with the times of the trace. JOB is needed only if the trace does not have the job.",
      add_critical_options, run_critical);
}

}  // namespace troupe
