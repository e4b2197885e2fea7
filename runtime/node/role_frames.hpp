// Messages between roles as frames of a transport, for both of its ends: type 1, source and
// destination are the roles, id is the message's, the payload is the wire format
// (runtime/messages/wire.hpp). Tensors alone may be lent (net/memory_sharing.hpp).
// Threads: functions without state.
#pragma once

#include <string>

#include "runtime/messages/message.hpp"
#include "runtime/node/net/transport.hpp"

namespace troupe {

// Without parts: the message never leaves its host.
net::outgoing_frame to_frame(const envelope& e);
// Why the frame is no message; empty: `out` is the message.
std::string from_frame(const net::frame& f, envelope& out);

}  // namespace troupe
