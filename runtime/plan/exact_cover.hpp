// Checks that rectangles of packets x features cover a given rectangle exactly once.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace troupe {

struct span_of {
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const { return end - begin; }
  friend bool operator==(const span_of&, const span_of&) = default;
};

struct claim {
  span_of packets, features;
  std::uint32_t who = 0;  // an id chosen by the caller
};

// The first place, ordered by packets and then features, where the claims do not cover the required
// `packets` x `features` exactly once; none if they do.
struct cover_fault {
  enum class what { missing, twice, beyond } kind = what::missing;
  span_of packets, features;
  std::uint32_t first = 0, second = 0;  // the claims' `who`; twice: both; beyond: `first`
};
std::optional<cover_fault> exact_cover(std::vector<claim> claims, span_of packets, span_of features);

}  // namespace troupe
