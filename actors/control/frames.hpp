// Messages of the control plane as frames of a transport.
#pragma once

#include <optional>

#include "actors/control/frames.hpp"
#include "runtime/cluster/messages.hpp"
#include "runtime/node/net/transport.hpp"

namespace troupe::control {

// A message that exceeds max_message is cut (runtime/cluster/fitting.hpp), except those with the
// text of a job.
net::outgoing_frame to_frame(const message& m);
std::optional<message> from_frame(const net::frame& f);

}  // namespace troupe::control
