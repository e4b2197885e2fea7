// Messages between roles as frames of a transport, for both of its ends: type 1, source and
// destination are the roles, id is the message's, the payload is the wire format
// (runtime/messages/wire.hpp). Only tensors may be shared (net/memory_sharing.hpp).
// Threads: functions without state.
#pragma once

#include <string>

#include "runtime/messages/message.hpp"
#include "runtime/node/net/transport.hpp"

namespace troupe {

// A message that must not leave its host becomes a frame without parts.
net::outgoing_frame to_frame(const envelope& e);
// Returns why the frame is not a valid message; empty if `out` is set to the message.
std::string from_frame(const net::frame& f, envelope& out);

}  // namespace troupe
