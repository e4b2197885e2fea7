#include "runtime/sim/faults.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace troupe::sim {

faults::faults(fault_model m, std::uint64_t seed) : model_(std::move(m)), random_(seed ^ 0x6661756c74730a0dull) {
  for (const auto& f : model_.list) {
    if (at_a_moment(f.kind))
      throw std::invalid_argument("a simulation without daemons has no fault \"" + std::string(text_of(f.kind)) +
                                  "\": use sim::sim_cluster");
    auto& named = named_.emplace_back();
    for (auto n : f.nodes) {
      if (n >= named.size()) named.resize(n + std::size_t{1});
      named[n] = true;
    }
  }
}

bool faults::has(const fault& f, std::uint32_t node) const {
  const auto& named = named_[static_cast<std::size_t>(&f - model_.list.data())];
  return node < named.size() && named[node];
}

// Messages between roles are on the data plane.
bool faults::cuts_data(const fault& f) { return f.kind == fault_kind::cut && f.plane != fault_plane::control; }

bool faults::cuts(const fault& f, std::uint32_t from, std::uint32_t to) const {
  if (f.kind == fault_kind::partition) return has(f, from) != has(f, to);
  const auto one_way = [&](std::uint32_t a, std::uint32_t b) {
    return has(f, a) && (f.to.empty() ? !has(f, b) : std::find(f.to.begin(), f.to.end(), b) != f.to.end());
  };
  return cuts_data(f) && (one_way(from, to) || (f.both_ways && one_way(to, from)));
}

void faults::count_from(time_point start) {
  for (auto& f : model_.list) {
    f.from += start;
    if (f.until < duration::max() - start) f.until += start;
  }
}

bool faults::unreliable() const {
  return std::any_of(model_.list.begin(), model_.list.end(), [](const fault& f) {
    return f.kind == fault_kind::reorder || f.kind == fault_kind::drop || f.kind == fault_kind::partition || cuts_data(f) ||
           (f.kind == fault_kind::duplicate && !f.above);
  });
}

duration faults::drawn(const fault& f) {
  const auto spread = f.most > f.least ? static_cast<std::uint64_t>((f.most - f.least).count()) : 0;
  return f.least + duration(static_cast<std::int64_t>(random_.below(spread + 1)));
}

faults::verdict faults::on_wire(std::uint32_t from, std::uint32_t to, time_point now, fault_counts& counts) {
  verdict v;
  for (const auto& f : model_.list) {
    if (!now_is_in(f, now)) continue;
    if (cuts(f, from, to)) {
      v.lost = true;
      ++counts.cut_off;
    }
    if (!of_the_wire(f.kind) || (f.kind == fault_kind::duplicate && f.above)) continue;
    if (!f.nodes.empty() && !has(f, from) && !has(f, to)) continue;
    if (!random_.chance(f.probability)) continue;
    switch (f.kind) {
      case fault_kind::drop: v.lost = true, ++counts.dropped; break;
      case fault_kind::duplicate: v.twice = true, ++counts.duplicated_on_wire; break;
      case fault_kind::delay: v.longer += drawn(f), ++counts.delayed; break;
      case fault_kind::reorder: v.longer += drawn(f), ++counts.reordered; break;
      default: break;
    }
  }
  return v;
}

bool faults::twice_above(std::uint32_t from, std::uint32_t to, time_point now, fault_counts& counts) {
  for (const auto& f : model_.list) {
    if (f.kind != fault_kind::duplicate || !f.above || !now_is_in(f, now)) continue;
    if (!f.nodes.empty() && !has(f, from) && !has(f, to)) continue;
    if (!random_.chance(f.probability)) continue;
    ++counts.duplicated_above;
    return true;
  }
  return false;
}

double faults::slowness(std::uint32_t node, time_point now, fault_counts& counts) const {
  double factor = 1;
  for (const auto& f : model_.list)
    if (f.kind == fault_kind::slow && now_is_in(f, now) && has(f, node)) factor *= f.factor;
  if (factor != 1) ++counts.slowed;
  return factor;
}

faults::clock faults::clock_of(std::uint32_t node) const {
  clock c;
  for (const auto& f : model_.list) {
    if (f.kind != fault_kind::skew || !has(f, node)) continue;
    c.ahead += f.least;
    c.rate *= f.factor;
  }
  return c;
}

double faults::slowness_of_disk(std::uint32_t node, time_point now, fault_counts& counts) const {
  double factor = 1;
  for (const auto& f : model_.list)
    if (f.kind == fault_kind::slow_disk && now_is_in(f, now) && has(f, node)) factor *= f.factor;
  if (factor != 1) ++counts.slow_stores;
  return factor;
}

}  // namespace troupe::sim
