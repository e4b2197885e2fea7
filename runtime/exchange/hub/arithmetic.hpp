// Arithmetic of the exchange, on blocks of equal length. The order of every addition depends on
// ranks alone.
//
//   fold      v_0 = (v_0 + v_1) + (v_2 + v_3) + ...: the fixed tree (ops/tree/packet_tree.hpp) over
//             ranks, so that n ranks with one packet each add as Troupe's workers do. The result is
//             in the first block. product, min and max use the same tree; the mean is the sum
//             divided by the number of blocks. bf16: every combination of two is computed in f32
//             and rounded to nearest even. Integers wrap and have no mean. min and max propagate
//             NaN.
//   add       the hub's part of ASGD: c += d
//   pull      EASGD, asynchronous (Zhang, Choromanska, LeCun 2015, eq. 5-6): d = alpha (w - c); c
//             += d; w is replaced by d
//   pull_all  EASGD, synchronous: all d_i with the same c, then c += d_0 + d_1 + ... in rank order;
//             each w_i is replaced by d_i
//   push      the client's part of EASGD: w -= d
#pragma once

#include <cstdint>
#include <span>

#include "runtime/exchange/hub/message.hpp"

namespace troupe::exchange {

block make_block(std::uint64_t bytes);  // throws std::bad_alloc
block copy_of(const block& b, std::uint64_t bytes);

void fold(element e, reduction how, std::span<const block> values, std::uint64_t count);
// The same without changing `in`. `out` may be one of the inputs.
void fold_into(element e, reduction how, std::byte* out, std::span<const std::byte* const> in, std::uint64_t count);
// This and all following functions: f32 and f64 only.
void add(element e, std::byte* centre, const std::byte* difference, std::uint64_t count);
void pull(element e, std::byte* worker, std::byte* centre, std::uint64_t count, double alpha);
void pull_all(element e, std::span<const block> workers, std::byte* centre, std::uint64_t count, double alpha);
void push(element e, void* worker, const std::byte* difference, std::uint64_t count);

}  // namespace troupe::exchange
