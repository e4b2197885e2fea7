// trouped: the daemon of a node. `trouped --cluster FILE --node NAME [--check]`.
#include <CLI/CLI.hpp>

#include "actors/daemon.hpp"

int main(int argc, char** argv) {
  troupe::daemon_options o;
  CLI::App app("Run the daemon of one node of a Troupe cluster.", "trouped");
  app.add_option("--cluster", o.cluster_file, "Cluster file (TOML)")->required();
  app.add_option("--node", o.node, "Name of this node in the cluster file")->required();
  app.add_option("--state", o.state, "Folder for checkpoints and weights (default: state/NODE next to the cluster file)");
  app.add_flag("--check", o.check, "Validate the cluster file and certificates, and exit");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  try {
    return troupe::run_daemon(o);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "trouped: %s\n", e.what());
    return 1;
  }
}
