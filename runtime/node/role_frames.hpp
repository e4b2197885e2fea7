// Messages between roles as frames of a transport, for both of its ends: type 1, source and
// destination are the roles, id is the message's, the payload is the wire format
// (runtime/messages/wire.hpp). Only tensors may be shared (net/memory_sharing.hpp).
// Threads: functions without state.
#pragma once

#include "runtime/base/result.hpp"
#include "runtime/messages/message.hpp"
#include "runtime/node/net/transport.hpp"

namespace troupe {

// A message that must not leave its host becomes a frame without parts.
net::outgoing_frame to_frame(const envelope& e);
// Sets `out` to the message. An error if the frame is not a valid one.
expected<void> from_frame(const net::frame& f, envelope& out);

}  // namespace troupe
