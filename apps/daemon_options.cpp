#include "apps/daemon_options.hpp"

#include <CLI/CLI.hpp>

namespace troupe {

void add_daemon_options(CLI::App& app, daemon_options& o) {
  app.add_option("--cluster", o.cluster_file, "Cluster file (TOML)")->required()->option_text("FILE (required)");
  app.add_option("--node", o.node, "Name of this node in the cluster file")->required()->option_text("NAME (required)");
  app.add_option("--state", o.state, "Folder for checkpoints and weights (default: state/NODE next to the cluster file)")
      ->option_text("DIR");
  app.add_flag("--check", o.check, "Validate the cluster file and certificates, and exit");
  app.footer(
      "Examples:\n  trouped --cluster cluster.toml --node n1 --check\n  trouped --cluster cluster.toml --node n1\n"
      "SIGTERM stops the daemon after its jobs have written a checkpoint. SIGHUP reloads the certificates.");
}

}  // namespace troupe
