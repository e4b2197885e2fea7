// `troupe fetch JOB-NUMBER --cluster FILE`: gets the weights of a job that is done. `troupe jobs
// --cluster FILE`: lists the jobs of a cluster.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "actors/control/client/client.hpp"
#include "actors/repl/repl.hpp"
#include "apps/cli/command.hpp"
#include "apps/commands/commands.hpp"
#include "runtime/node/config/cluster_file.hpp"

namespace troupe {
namespace {

struct fetch_arguments {
  std::uint32_t job = 0;
  std::string cluster, out;
};

int run_fetch(const fetch_arguments& a, const output& out) {
  auto cluster = read_cluster_file(a.cluster);
  if (!cluster) return out.wrong(cluster.error());
  cluster_submission s;
  s.where = coordinator_of(*cluster);
  s.attach = a.job;
  s.out = a.out.empty() ? "job-" + std::to_string(a.job) + ".safetensors" : a.out;
  if (const auto fine = check_writable_file(s.out); !fine) return out.wrong(s.out, fine.error().text);
  const auto got = fetch_from_cluster(s);
  if (!got && got.error().wrong) return out.wrong("fetch", got.error().text + "; try: troupe jobs --cluster " + a.cluster);
  if (!got) return out.failed("fetch", got.error().text + "; try: troupe doctor --cluster " + a.cluster);
  if (out.json())
    out.object({{"event", "fetched"}, {"job", a.job}, {"file", s.out}, {"weights_sha256", *got}});
  else
    out.text("weights of job " + std::to_string(a.job) + " in " + s.out + "\n" + weights_line(*got) + "\n");
  return exit_done;
}

void add_fetch_options(CLI::App& c, fetch_arguments& a) {
  c.add_option("JOB-NUMBER", a.job, "Number of the job, as shown by `troupe jobs`")
      ->required()
      ->option_text("(required)")
      ->check(CLI::Range(1u, 65535u));
  file_option(c, "--cluster", a.cluster, "Cluster file")->required()->option_text("FILE (required)");
  file_option(c, "--out", a.out, "Write the weights to this file (default: job-NUMBER.safetensors)");
  json_option(c);
}

struct jobs_arguments {
  std::string cluster;
};

int run_jobs(const jobs_arguments& a, const output& out) {
  auto cluster = read_cluster_file(a.cluster);
  if (!cluster) return out.wrong(cluster.error());
  const auto lines = connect_repl(coordinator_of(*cluster), out.json(), std::chrono::seconds(8));
  if (!lines) return out.failed(a.cluster, lines.error().text + "; try: troupe doctor --cluster " + a.cluster);
  const auto reply = (*lines)("jobs", nullptr);
  if (reply.how != repl_reply::kind::ok) return out.failed("jobs", reply.text);
  out.lines(reply.text + "\n");
  return exit_done;
}

void add_jobs_options(CLI::App& c, jobs_arguments& a) {
  file_option(c, "--cluster", a.cluster, "Cluster file")->required()->option_text("FILE (required)");
  json_option(c);
}

}  // namespace

cli_command fetch_command() {
  return make_command<fetch_arguments>("fetch", "Get the weights of a job that a cluster has finished",
                                       "  troupe fetch 1 --cluster cluster.toml --out lenet.safetensors\n"
                                       "The coordinator's node keeps the weights of the newest 64 jobs.",
                                       add_fetch_options, run_fetch);
}

cli_command jobs_command() {
  return make_command<jobs_arguments>("jobs", "List the jobs of a cluster", "  troupe jobs --cluster cluster.toml",
                                      add_jobs_options, run_jobs);
}

}  // namespace troupe
