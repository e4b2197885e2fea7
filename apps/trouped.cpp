// trouped: a node's daemon. `trouped --cluster FILE --node NAME [--check]`.
#include <CLI/CLI.hpp>

#include "actors/daemon.hpp"

int main(int argc, char** argv) {
  troupe::daemon_options o;
  CLI::App app("The daemon of one node of a Troupe cluster", "trouped");
  app.add_option("--cluster", o.cluster_file, "cluster file (TOML)")->required();
  app.add_option("--node", o.node, "which node of it this is")->required();
  app.add_option("--state", o.state, "folder for checkpoints and weights (default: state/NODE beside the cluster file)");
  app.add_flag("--check", o.check, "validate the cluster file and certificates, and exit");
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
