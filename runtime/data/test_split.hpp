// The choice of test examples by a fraction of all examples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe {

// Returns for each of `n` examples whether it belongs to the test split: round(fraction n) of them,
// those whose number hashes lowest under `seed`. The choice depends on nothing else. With seed 0
// all jobs on the same file have the same test split.
std::vector<bool> chosen_for_test(std::size_t n, double fraction, std::uint64_t seed = 0);

}  // namespace troupe
