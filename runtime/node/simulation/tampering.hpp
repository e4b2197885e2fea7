// What a test makes simulated daemons do wrong, to learn whether its invariants notice: changes of
// what passes between the state machines of a daemon and the host that carries out their orders.
// Production code has no part in it. Empty functions, the default: nothing is wrong.
// Threads: those of the simulation: one.
#pragma once

#include <cstdint>
#include <functional>

#include "runtime/cluster/controller/orders.hpp"
#include "runtime/messages/message.hpp"

namespace troupe::sim {

struct tampering {
  // Orders before they are carried out. The function may change the list.
  std::function<void(std::uint32_t node, control::orders&)> of_controller = {};
  std::function<void(std::uint32_t node, control::member_orders&)> of_member = {};
  // A message of another daemon, before it is handled. False: it is lost.
  std::function<bool(std::uint32_t node, control::message&)> takes = {};
  // A connection with a peer has ended. False: the daemon does not learn it.
  std::function<bool(std::uint32_t node, std::uint32_t peer)> hears_end = {};
  // State that roles store. False: it is lost, although the cluster controller learns that it is
  // kept.
  std::function<bool(std::uint32_t node, store_effect&)> keeps = {};
};

}  // namespace troupe::sim
