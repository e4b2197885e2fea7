// The values of a buffer that a rank gives in a call, and those that it gets; used by hub, team and
// session. A buffer has the same length on every rank. Rank r's part of n values among p ranks is
// [n r / p, n (r + 1) / p); p need not divide n.
//
//   call             gives               gets
//   all_reduce       all                 all, reduced
//   reduce_scatter   all                 its part, reduced
//   all_gather       its part            all
//   gather           its part            the root: all
//   scatter          the root: all       the others: their part
//   broadcast        the root: all       the others: all
//   exchange         all                 all
#pragma once

#include <cstdint>

#include "runtime/exchange/hub/message.hpp"

namespace troupe::exchange {

struct range {
  std::uint64_t first = 0, count = 0;
};

constexpr range part_of(std::uint64_t count, std::uint32_t rank, std::uint32_t ranks) {
  const auto edge = [&](std::uint64_t r) { return count / ranks * r + count % ranks * r / ranks; };
  return {edge(rank), edge(std::uint64_t{rank} + 1) - edge(rank)};
}

constexpr bool reduces(collective_op v) { return v == collective_op::all_reduce || v == collective_op::reduce_scatter; }
constexpr bool has_root(collective_op v) {
  return v == collective_op::broadcast || v == collective_op::gather || v == collective_op::scatter;
}

constexpr range given(const begin& b, std::uint64_t count, std::uint32_t rank, std::uint32_t ranks) {
  if (b.how == meeting::in_memory) return {};
  switch (b.what) {
    case collective_op::exchange:
    case collective_op::all_reduce:
    case collective_op::reduce_scatter: return {0, count};
    case collective_op::broadcast:
    case collective_op::scatter: return rank == b.argument ? range{0, count} : range{};
    case collective_op::all_gather:
    case collective_op::gather: return part_of(count, rank, ranks);
    case collective_op::centre:
    case collective_op::barrier: break;
  }
  return {};
}

constexpr range got(const begin& b, std::uint64_t count, std::uint32_t rank, std::uint32_t ranks) {
  if (b.how == meeting::in_memory) return {};
  switch (b.what) {
    case collective_op::exchange:
    case collective_op::centre:
    case collective_op::all_reduce:
    case collective_op::all_gather: return {0, count};
    case collective_op::reduce_scatter: return part_of(count, rank, ranks);
    case collective_op::broadcast: return rank == b.argument ? range{} : range{0, count};
    case collective_op::gather: return rank == b.argument ? range{0, count} : range{};
    case collective_op::scatter: return rank == b.argument ? range{} : part_of(count, rank, ranks);
    case collective_op::barrier: break;
  }
  return {};
}

}  // namespace troupe::exchange
