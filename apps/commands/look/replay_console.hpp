// The REPL of `troupe replay`: delivers the messages of a recorded job one by one and shows the
// state of its roles.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "apps/commands/look/recorded_plans.hpp"
#include "runtime/cluster/view/view.hpp"

namespace troupe {

class replay_console {
 public:
  // `plans` must outlive the console. `interrupted`: called now and then; true ends a long command.
  replay_console(std::vector<recorded_plan>& plans, std::shared_ptr<device> dev, const output& out,
                 std::function<bool()> interrupted);
  ~replay_console();

  // Goes to the beginning of a plan. Prints the error; returns the exit code, 0 if there is none.
  int open(std::size_t plan);
  repl_reply run(const std::string& line);

 private:
  struct position;
  using words = std::vector<std::string>;
  struct command {
    const char *name, *arguments, *about;
    std::size_t least, most;  // number of arguments
    repl_reply (replay_console::*run)(const words& args);
  };
  static const std::vector<command>& commands();

  repl_reply step(const words& args);
  repl_reply back(const words& args);
  repl_reply to(const words& args);
  repl_reply next(const words& args);
  repl_reply to_end(const words& args);
  repl_reply role(const words& args);
  repl_reply roles(const words& args);
  repl_reply where(const words& args);
  repl_reply list_plans(const words& args);
  repl_reply go_to_plan(const words& args);
  repl_reply help(const words& args);
  repl_reply complete(const std::string& typed) const;

  // Delivers messages until `over`; each is shown, at most `shown_at_most` of them.
  repl_reply play(const std::function<bool(const replay::replayed&)>& over);
  std::string message_line(const replay::replayed& m) const;
  std::string place_line() const;
  role_id role_named(const std::string& name) const;  // no_role: there is none
  repl_reply wrong(const std::string& why) const;

  std::vector<recorded_plan>& plans_;
  const std::shared_ptr<device> dev_;
  const output& out_;
  const std::function<bool()> interrupted_;
  std::unique_ptr<position> at_;
};

}  // namespace troupe
