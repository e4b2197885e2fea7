#include "runtime/data/test_split.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/data/random.hpp"

namespace troupe {

std::vector<bool> chosen_for_test(std::size_t n, double fraction, std::uint64_t seed) {
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [seed](std::size_t a, std::size_t b) { return hash_at(a, seed) < hash_at(b, seed); });
  std::vector<bool> chosen(n);
  const auto wanted = static_cast<std::size_t>(std::lround(fraction * static_cast<double>(n)));
  for (std::size_t k = 0; k < wanted; ++k) chosen[order[k]] = true;
  return chosen;
}

}  // namespace troupe
