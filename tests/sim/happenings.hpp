// Random lists of happenings of every kind and key, sorted by time, for laws of what reads, writes
// and repeats them.
#pragma once

#include <algorithm>
#include <vector>

#include "runtime/sim/schedule.hpp"

namespace troupe::sim {

inline std::vector<happening> random_happenings(std::uint64_t seed, std::uint32_t nodes) {
  random r(seed * 977);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(r.below(n)); };
  // A round number of some unit, or any number of nanoseconds; up to 100 days.
  const auto time = [&] {
    const std::int64_t units[] = {1, 1'000, 1'000'000, 1'000'000'000, 60'000'000'000};
    const auto unit = units[below(5)];
    return duration(unit * below(static_cast<std::uint64_t>(std::min<std::int64_t>(100'000, 8'640'000'000'000'000 / unit))) +
                    (below(4) == 0 ? below(8'640'000'000'000'000) : 0));
  };
  const auto some = [&] {
    std::vector<std::uint32_t> list;
    for (std::uint32_t n = 0; n < nodes; ++n)
      if (below(6) == 0) list.push_back(n);
    if (list.empty()) list.push_back(static_cast<std::uint32_t>(below(nodes)));
    return list;
  };
  std::vector<happening> all(r.below(12));
  for (auto& h : all) {
    do h.kind = static_cast<fault_kind>(below(fault_words.size()));
    while (of_the_wire(h.kind) || h.kind == fault_kind::crash);
    h.at = h.kind == fault_kind::skew ? duration{} : time();
    h.nodes = some();
    const bool ends = h.kind == fault_kind::partition || h.kind == fault_kind::cut || h.kind == fault_kind::stop;
    if (h.kind != fault_kind::skew && (ends || below(3) > 0)) h.length = time();
    if (h.kind == fault_kind::cut) {
      if (below(2) == 0) h.to = some();
      h.plane = static_cast<fault_plane>(below(3));
      h.both_ways = below(2) == 0;
    }
    if (h.kind == fault_kind::slow || h.kind == fault_kind::slow_disk) h.factor = 0.001 + 50 * r.unit();
    if (h.kind == fault_kind::skew) {
      h.factor = 0.5 + r.unit();
      h.ahead = time();
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const happening& a, const happening& b) { return a.at < b.at; });
  return all;
}

// Random faults of single messages, as a file may have them.
inline fault_model random_wire_faults(std::uint64_t seed, std::uint32_t nodes) {
  random r(seed * 5381);
  fault_model m;
  if (r.below(3) == 0) m.resend = duration(1 + static_cast<std::int64_t>(r.below(20'000'000)));
  for (auto count = r.below(4); count > 0; --count) {
    auto& f = m.list.emplace_back();
    f.kind = static_cast<fault_kind>(r.below(4));
    f.probability = r.below(4) == 0 ? 0.25 : r.unit();
    if (r.below(2) == 0) f.nodes = {static_cast<std::uint32_t>(r.below(nodes)), 0};
    if (r.below(2) == 0) f.from = duration(static_cast<std::int64_t>(r.below(1'000'000'000'000)));
    if (r.below(2) == 0) f.until = f.from + duration(static_cast<std::int64_t>(r.below(1'000'000'000'000)));
    if (f.kind == fault_kind::delay || f.kind == fault_kind::reorder) {
      f.least = duration(static_cast<std::int64_t>(r.below(1'000'000)));
      f.most = f.least + duration(static_cast<std::int64_t>(r.below(1'000'000)));
    }
    f.above = f.kind == fault_kind::duplicate && r.below(2) == 0;
  }
  return m;
}

}  // namespace troupe::sim
