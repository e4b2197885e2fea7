// What a frame to be sent consists of, looked at once, before it is queued.
#pragma once

#include <cstdint>

#include "runtime/node/net/transport.hpp"

namespace troupe::net {

// Whether a frame may be sent to a peer that accepts `max_frame` bytes: the size of its payload.
// Afterwards every part has `data`, those in regions too. Errors, for the log: "reserved_type",
// "frame_too_large", "bad_part" (nothing has been read then).
expected<std::uint64_t> prepare(outgoing_frame& f, std::uint64_t max_frame);

}  // namespace troupe::net
