// A file as bytes, for sources that keep their data in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace troupe {

// The whole of a regular file, bounded by its size at opening, which may be at most `most`. Returns what is wrong, without naming the
// file; empty: nothing.
std::string read_whole(const std::string& path, std::vector<std::uint8_t>& out,
                       std::size_t most = std::numeric_limits<std::size_t>::max());

}  // namespace troupe
