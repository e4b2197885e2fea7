// Checks an outgoing frame once, before it is queued.
#pragma once

#include <cstdint>

#include "runtime/base/result.hpp"
#include "runtime/node/net/transport.hpp"

namespace troupe::net {

// Returns the payload size of a frame that may be sent to a peer that accepts `max_frame` bytes,
// and sets `data` of every part, also of those in regions. Errors, for the log: "reserved_type",
// "frame_too_large", "bad_part" (no payload byte has been read).
expected<std::uint64_t, coded_error> prepare(outgoing_frame& f, std::uint64_t max_frame);

}  // namespace troupe::net
