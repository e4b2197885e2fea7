// A random order of the numbers [begin, end), by key. Fisher and Yates (Knuth's algorithm P): order = begin..end-1; for i = n-1 down
// to 1: swap(order[i], order[draw_below(i + 1)]) with the stream counter_rng(key) of random.hpp. The last key's order is kept.
#pragma once

#include <cassert>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/data/random.hpp"

namespace troupe {

// Each worker's own seed. Worker 0 has the job's, so that one worker alone is the plain shuffle.
constexpr std::uint64_t worker_seed(std::uint64_t seed, std::uint32_t worker) {
  return worker == 0 ? seed : sub_key(seed ^ 0x776f726b65727321u, worker);
}

class permutation {
 public:
  permutation(std::int64_t begin, std::int64_t end) : begin_(begin), end_(end) {}

  // Positions [first, first + count) of the order of `key`.
  std::vector<std::int64_t> part(std::uint64_t key, std::int64_t first, std::int64_t count) {
    assert(first >= 0 && count >= 0 && first + count <= end_ - begin_);
    if (key_ != key) draw(key);
    return {order_.begin() + first, order_.begin() + first + count};
  }

 private:
  void draw(std::uint64_t key) {
    order_.resize(static_cast<std::size_t>(end_ - begin_));
    std::iota(order_.begin(), order_.end(), begin_);
    counter_rng rng(key);
    for (auto i = order_.size(); i-- > 1;) std::swap(order_[i], order_[rng.draw_below(i + 1)]);
    key_ = key;
  }

  std::int64_t begin_, end_;
  std::optional<std::uint64_t> key_;
  std::vector<std::int64_t> order_;
};

}  // namespace troupe
