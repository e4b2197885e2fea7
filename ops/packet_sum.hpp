// Sums over several packets of a step, in the order of the fixed tree (tree/packet_tree.hpp).
#pragma once

#include <cstdint>

#include "ops/device.hpp"
#include "ops/tree/packet_tree.hpp"

namespace troupe {

// sum = sum over packets first .. first + packets - 1 of the tensor that make(packet, to) assigns
// to `to`. For packets > 1, allocates one addend per level of the tree.
template <class Make>
void sum_over_packets(device& d, std::int64_t packets, tensor& sum, const Make& make, std::int64_t first = 0) {
  if (packets == 1) return make(first, sum);
  const auto left = left_of(packets);
  sum_over_packets(d, left, sum, make, first);
  tensor right = tensor::allocate(d, sum.dims(), sum.type());
  sum_over_packets(d, packets - left, right, make, first + left);
  d.apply(binary::add, sum, right, sum);
}

// stacked() concatenates packets along axis 0: empty if the parts are empty; a single part is
// returned as it is. packet_of() returns the k-th of `packets` concatenated packets.
inline tensor stacked(device& d, const tensors& parts) {
  if (parts.size() == 1 || !parts[0]) return parts[0];
  shape s = parts[0].dims();
  s.set(0, s[0] * static_cast<std::int64_t>(parts.size()));
  tensor all = tensor::allocate(d, s, parts[0].type());
  std::int64_t at = 0;
  for (const auto& p : parts) {
    d.copy_block({.rows = 1, .length = p.count(), .to_offset = at}, p, all);
    at += p.count();
  }
  return all;
}
inline tensor packet_of(const tensor& all, std::int64_t k, std::int64_t packets) {
  shape s = all.dims();
  s.set(0, s[0] / packets);
  return all.slice(k * s.count(), s);
}

}  // namespace troupe
