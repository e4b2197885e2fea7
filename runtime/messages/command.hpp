// Commands to a running job, from users and from its host. Each kind is a struct with its
// arguments. The coordinator role carries out most of them and answers with events
// (event_kinds.hpp). Commands that change the plan (`amends`, runtime/job/amend.hpp) and `kill` are
// carried out by the host, which sends the coordinator role commands of its own: handover and
// surviving_state.
//
// To add a command: write its struct here, add it to `command`, handle it (for a command to the
// coordinator role: coordinator::take_command), and add it to the REPL
// (actors/repl/commands_*.cpp).
// Threads: values.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "ops/one_of.hpp"
#include "runtime/messages/ids.hpp"
#include "runtime/messages/mode_choice.hpp"

namespace troupe {

// --- to the coordinator role, at the next step boundary

struct pause_command {
  static constexpr const char* name = "pause";
};
struct resume_command {
  static constexpr const char* name = "resume";
};
struct stop_command {  // with a checkpoint
  static constexpr const char* name = "stop";
};
struct checkpoint_command {
  static constexpr const char* name = "checkpoint";
};
struct eval_command {
  static constexpr const char* name = "eval";
};
struct staleness_command {
  static constexpr const char* name = "staleness";
};
struct histograms_command {
  static constexpr const char* name = "histograms";
};
// Sets a number of the job file, e.g. "train.dynamics.lr".
struct set_command {
  static constexpr const char* name = "set";
  std::string key;
  double value = 0;
  static auto fields(auto& c) { return std::tie(c.key, c.value); }
};
// Sets an option of the present mode, e.g. "staleness" to "3".
struct set_option_command {
  static constexpr const char* name = "set";
  std::string option, value;
  static auto fields(auto& c) { return std::tie(c.option, c.value); }
};
struct mode_command {
  static constexpr const char* name = "mode";
  mode_choice mode;
  static auto fields(auto& c) { return std::tie(c.mode); }
};

// --- from the host to the coordinator role

// All nodes have the job's next plan, which was made for this mode: hand over.
struct handover_command {
  static constexpr const char* name = "handover";
  mode_choice mode;
  static auto fields(auto& c) { return std::tie(c.mode); }
};
// These nodes have failed: find the state that the others have (coordinator/surviving_state.hpp).
struct surviving_state_command {
  static constexpr const char* name = "surviving_state";
  std::vector<std::string> lost;
  static auto fields(auto& c) { return std::tie(c.lost); }
};

// --- to the host

// Ends the job at once, without a checkpoint.
struct kill_command {
  static constexpr const char* name = "kill";
};
// Moves a layer ("fc6"), or its part 1 ("fc6.1"), to a node: "n2" or "n2/gpu:1".
struct move_command {
  static constexpr const char* name = "move";
  std::string layer, place;
  static auto fields(auto& c) { return std::tie(c.layer, c.place); }
};
// The job must not use the node.
struct drain_command {
  static constexpr const char* name = "drain";
  std::string node;
  static auto fields(auto& c) { return std::tie(c.node); }
};
// The job may use the node again.
struct add_node_command {
  static constexpr const char* name = "add-node";
  std::string node;
  static auto fields(auto& c) { return std::tie(c.node); }
};
// Sets the number of packets of each worker.
struct balance_command {
  static constexpr const char* name = "balance";
  std::vector<std::uint32_t> packets;
  static auto fields(auto& c) { return std::tie(c.packets); }
};
// These nodes have failed: a drain of all of them at once that does not wait for a boundary.
// Without nodes: all nodes stay, and their roles start again.
struct lose_command {
  static constexpr const char* name = "lose";
  std::vector<std::string> nodes;
  static auto fields(auto& c) { return std::tie(c.nodes); }
};

// The index of a kind is part of the wire format (wire_version).
struct command_kinds {
  using variant =
      std::variant<pause_command, resume_command, stop_command, checkpoint_command, eval_command, staleness_command,
                   histograms_command, set_command, set_option_command, mode_command, handover_command, surviving_state_command,
                   kill_command, move_command, drain_command, add_node_command, balance_command, lose_command>;
};
extern template class one_of<command_kinds>;

struct command {
  one_of<command_kinds> what = {};
  command_id id = 0;  // not part of the wire format: only the daemon that gave it knows it

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(what);
  }
  template <class T>
  const T* as() const {
    return std::get_if<T>(&what);
  }
};

inline const char* name_of(const command& c) {
  return std::visit([](const auto& k) { return std::remove_cvref_t<decltype(k)>::name; }, c.what);
}

}  // namespace troupe
