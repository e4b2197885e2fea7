// Files that travel over the control plane piece by piece, in answer to `fetch`.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "actors/control/messages.hpp"

namespace troupe::control {

// The piece of the file at `path` that is asked for; an error where there is none. `what`: the
// file, for the error.
piece read_piece(const fetch& f, const std::string& path, const std::string& what);

// What may be added to a deadline for a file of that size to be read and its checksums to be made.
constexpr std::chrono::seconds time_for(std::uint64_t bytes) { return std::chrono::seconds(bytes >> 25); }

}  // namespace troupe::control
