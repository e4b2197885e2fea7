// Who takes a message that a daemon sends to itself.
#pragma once

#include <variant>

#include "runtime/cluster/messages.hpp"

namespace troupe::control {

// True: the member. It takes the messages of the cluster controller to nodes; the cluster
// controller takes all others.
inline bool is_for_member(const message& m) {
  return std::holds_alternative<joined>(m) || std::holds_alternative<prepare>(m) || std::holds_alternative<end_job>(m) ||
         std::holds_alternative<revise>(m) || std::holds_alternative<swap>(m) || std::holds_alternative<forget>(m) ||
         std::holds_alternative<inject>(m);
}

}  // namespace troupe::control
