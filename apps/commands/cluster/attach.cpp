// `troupe attach JOB-NUMBER --cluster FILE`: follows a job that was submitted to a cluster earlier.
// Ctrl-C detaches.
#include <CLI/CLI.hpp>

#include "apps/cli/command.hpp"
#include "apps/commands/commands.hpp"
#include "apps/commands/train/train.hpp"
#include "runtime/node/config/cluster_file.hpp"

namespace troupe {
namespace {

struct attach_arguments {
  std::uint32_t job = 0;
  std::string cluster, out;
};

int run_attach(const attach_arguments& a, const output& out) {
  if (const auto fine = a.out.empty() ? expected<void>() : check_writable_file(a.out); !fine)
    return out.wrong(a.out, fine.error().text);
  auto cluster = read_cluster_file(a.cluster);
  if (!cluster) return out.wrong(cluster.error());
  cluster_submission s;
  s.where = coordinator_of(*cluster);
  s.attach = a.job;
  s.out = a.out;
  return follow_on_cluster(s, a.cluster, a.out.empty(), out);
}

void add_attach_options(CLI::App& c, attach_arguments& a) {
  c.add_option("JOB-NUMBER", a.job, "Number of the job, as shown by `jobs` in the REPL")
      ->required()
      ->option_text("(required)")
      ->check(CLI::Range(1u, 65535u));
  file_option(c, "--cluster", a.cluster, "Cluster file")->required()->option_text("FILE (required)");
  file_option(c, "--out", a.out, "Write the final weights to this file (safetensors)");
  json_option(c);
}

}  // namespace

cli_command attach_command() {
  return make_command<attach_arguments>("attach", "Follow a job of a cluster again, and fetch its weights",
                                        "  troupe attach 1 --cluster cluster.toml\n"
                                        "  troupe attach 1 --cluster cluster.toml --out lenet.safetensors\n"
                                        "If the job is over, its result is printed again. Ctrl-C detaches; the job continues.",
                                        add_attach_options, run_attach);
}

}  // namespace troupe
