// trouped: the daemon of a node. `trouped --cluster FILE --node NAME [--check]`.
#include <CLI/CLI.hpp>

#include "actors/supervision/stop_signals.hpp"
#include "apps/daemon_options.hpp"
#include "runtime/base/printable.hpp"

int main(int argc, char** argv) {
  troupe::ignore_signals_of_writes();
  troupe::daemon_options o;
  CLI::App app(troupe::daemon_about, "trouped");
  troupe::add_daemon_options(app, o);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  try {
    return troupe::run_daemon(o);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "trouped: %s\n", troupe::printable(e.what()).c_str());
    return 1;
  }
}
