// The REPL of `troupe sim --repl`: the commands of a cluster's REPL on a simulated cluster, whose
// time stands still while the user reads.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/cli/command.hpp"
#include "runtime/cluster/view/view.hpp"
#include "runtime/node/simulation/sim_cluster.hpp"

namespace troupe {

class sim_console {
 public:
  // `cluster` must outlive the console. `interrupted`: called now and then; true ends a long
  // command.
  sim_console(sim::sim_cluster& cluster, const output& out, std::function<bool()> interrupted);
  repl_reply run(const std::string& line);

 private:
  using words = std::vector<std::string>;
  struct command {
    const char *name, *arguments, *about;
    std::size_t least, most;  // number of arguments
    repl_reply (sim_console::*run)(const words& args);
  };
  static const std::vector<command>& commands();

  repl_reply time(const words& args);
  repl_reply step(const words& args);
  repl_reply until(const words& args);
  repl_reply to_end(const words& args);
  repl_reply lose(const words& args);
  repl_reply start(const words& args);
  repl_reply waits(const words& args);
  repl_reply help(const words& args);
  repl_reply of_cluster(const std::string& line);

  // Handles events until `over`, the end of the job, or an interruption.
  repl_reply play(const std::function<bool()>& over);
  std::uint64_t steps() const;  // complete
  repl_reply wrong(const std::string& why) const;
  repl_reply on_node(const std::string& node, void (sim::sim_cluster::*what)(std::uint32_t));

  sim::sim_cluster& cluster_;
  const output& out_;
  const std::function<bool()> interrupted_;
  std::string next_;      // the line with which the last answer goes on
  std::size_t told_ = 0;  // events that were printed
};

// Reads and answers lines; `commands`: as of `troupe repl -c`.
int run_sim_console(const sim::cluster_config& c, const std::string* commands, const output& out);

}  // namespace troupe
