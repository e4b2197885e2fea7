// Transfer of files over the control plane in pieces, as answers to `fetch`.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "runtime/cluster/messages.hpp"

namespace troupe::control {

// Reads the requested piece of the file at `path`; sets `error` if there is no such file. `what`:
// describes the file in the error.
piece read_piece(const fetch& f, const std::string& path, const std::string& what);

// Extra time for a deadline in which a file of this size is read and its checksums are computed: 1
// s per 32 MiB.
constexpr std::chrono::seconds time_for(std::uint64_t bytes) { return std::chrono::seconds(bytes >> 25); }

}  // namespace troupe::control
