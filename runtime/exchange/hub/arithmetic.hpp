// The sums of the exchange, on blocks of equal length. The order of every addition is fixed by
// ranks alone.
//
//   fold      v_0 = (v_0 + v_1) + (v_2 + v_3) + ...: the fixed tree (ops/tree/packet_tree.hpp) over ranks, so that n ranks with one packet each
//             add as Troupe's own workers do. The result is left in the first block. The same for products, least and largest values; a mean is
//             the sum over the number of blocks. bf16: every joint is taken in f32 and rounded to nearest even. Whole numbers wrap, and have no
//             mean. Where one value is not a number the least and the largest are not either.
//   add       the centre's half of ASGD: c += d
//   pull      EASGD, asynchronous (Zhang, Choromanska, LeCun 2015, eq. 5-6): d = alpha (w - c); c += d; w is replaced by d
//   pull_all  EASGD, synchronous: all d_i with the same c, then c += d_0 + d_1 + ... in rank order; each w_i is replaced by d_i
//   push      the caller's half: w -= d
#pragma once

#include <cstdint>
#include <span>

#include "runtime/exchange/hub/message.hpp"

namespace troupe::exchange {

block make_block(std::uint64_t bytes);  // throws std::bad_alloc
block copy_of(const block& b, std::uint64_t bytes);

void fold(element e, reduction how, std::span<const block> values, std::uint64_t count);
// The same of blocks that stay as they are, into `out`, which may be one of them.
void fold_into(element e, reduction how, std::byte* out, std::span<const std::byte* const> in, std::uint64_t count);
// f32 and f64 alone, as all that follow.
void add(element e, std::byte* centre, const std::byte* difference, std::uint64_t count);
void pull(element e, std::byte* worker, std::byte* centre, std::uint64_t count, double alpha);
void pull_all(element e, std::span<const block> workers, std::byte* centre, std::uint64_t count, double alpha);
void push(element e, void* worker, const std::byte* difference, std::uint64_t count);

}  // namespace troupe::exchange
