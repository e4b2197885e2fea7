// Sums over the packets of a step in the fixed binary tree (PROTOCOLS, determinism; runtime/reduce/packet_tree.hpp has the same shape): the
// left half of n packets is the largest power of two below n.
#pragma once

#include <bit>
#include <cstdint>

#include "ops/device.hpp"

namespace troupe {

inline std::int64_t left_of(std::int64_t packets) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(packets)) / 2);
}

// sum = that of what make(packet, to) assigns for each of `packets` packets from `first` on. Of packets > 1 it allocates one addend for each
// level of the tree.
template <class Make>
void sum_over_packets(device& d, std::int64_t packets, tensor& sum, const Make& make, std::int64_t first = 0) {
  if (packets == 1) return make(first, sum);
  const auto left = left_of(packets);
  sum_over_packets(d, left, sum, make, first);
  tensor right = tensor::allocate(d, sum.dims(), sum.type());
  sum_over_packets(d, packets - left, right, make, first + left);
  d.apply(binary::add, sum, right, sum);
}

}  // namespace troupe
