// A random order of the numbers [begin, end), by key.
//
//   up to 2^24 numbers   Fisher and Yates (Knuth's algorithm P): order = begin..end-1; for i = n-1
//                        down to 1: swap(order[i], order[draw_below(i + 1)]) with the stream
//                        counter_rng(key) of random.hpp. The last key's order is kept as a table of
//                        4 bytes per number
//   more                 a Feistel network of eight rounds on the position (Luby and Rackoff 1988),
//                        repeated until the result is below n (cycle walking: Black and Rogaway
//                        2002). It needs no memory and no preparation
#pragma once

#include <bit>
#include <cassert>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/data/random.hpp"

namespace troupe {

// Each worker's own seed. Worker 0 has the job's, so that a single worker has the plain shuffle.
constexpr std::uint64_t worker_seed(std::uint64_t seed, std::uint32_t worker) {
  return worker == 0 ? seed : sub_key(seed ^ 0x776f726b65727321u, worker);
}

class permutation {
 public:
  static constexpr std::int64_t max_in_table = std::int64_t{1} << 24;

  permutation(std::int64_t begin, std::int64_t end, std::int64_t most = max_in_table)
      : begin_(begin), end_(end), in_table_(end - begin <= most) {
    assert(end >= begin && (!in_table_ || end - begin <= std::int64_t{1} << 32));
  }

  // Positions [first, first + count) of the order of `key`.
  std::vector<std::int64_t> part(std::uint64_t key, std::int64_t first, std::int64_t count) {
    assert(first >= 0 && count >= 0 && first + count <= end_ - begin_);
    std::vector<std::int64_t> out(static_cast<std::size_t>(count));
    for (auto& i : out) i = at(key, first++);
    return out;
  }
  std::int64_t at(std::uint64_t key, std::int64_t position) {
    if (!in_table_) return begin_ + walk(key, position);
    if (key_ != key) draw(key);
    return begin_ + order_[static_cast<std::size_t>(position)];
  }
  // Bytes of the table once it is drawn.
  std::int64_t bytes() const { return in_table_ ? (end_ - begin_) * std::int64_t{sizeof(std::uint32_t)} : 0; }

 private:
  void draw(std::uint64_t key) {
    order_.resize(static_cast<std::size_t>(end_ - begin_));
    std::iota(order_.begin(), order_.end(), 0u);
    counter_rng rng(key);
    for (auto i = order_.size(); i-- > 1;) std::swap(order_[i], order_[rng.draw_below(i + 1)]);
    key_ = key;
  }

  std::int64_t walk(std::uint64_t key, std::int64_t position) const {
    const auto n = static_cast<std::uint64_t>(end_ - begin_);
    const auto half = static_cast<int>(std::bit_width(n - 1) + 1) / 2;  // bits of each side; the domain has at most 4 n positions
    const auto mask = (std::uint64_t{1} << half) - 1;
    auto x = static_cast<std::uint64_t>(position);
    do {
      auto left = x >> half, right = x & mask;
      for (std::uint64_t round = 0; round < 8; ++round)
        left = std::exchange(right, left ^ (hash_at(sub_key(key, round), right) & mask));
      x = left << half | right;
    } while (x >= n);
    return static_cast<std::int64_t>(x);
  }

  std::int64_t begin_, end_;
  bool in_table_;
  std::optional<std::uint64_t> key_;
  std::vector<std::uint32_t> order_;  // offsets from begin_
};

}  // namespace troupe
