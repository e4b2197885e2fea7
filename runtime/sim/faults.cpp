#include "runtime/sim/faults.hpp"

#include <algorithm>

namespace troupe::sim {

bool faults::has(const fault& f, std::uint32_t node) { return std::find(f.nodes.begin(), f.nodes.end(), node) != f.nodes.end(); }

bool faults::unreliable() const {
  return std::any_of(model_.list.begin(), model_.list.end(), [](const fault& f) {
    return f.kind == fault_kind::reorder || f.kind == fault_kind::drop || f.kind == fault_kind::partition ||
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
    if (f.kind == fault_kind::partition) {
      if (has(f, from) != has(f, to)) v.lost = true, ++counts.cut_off;
      continue;
    }
    if (f.kind == fault_kind::slow || f.kind == fault_kind::crash || (f.kind == fault_kind::duplicate && f.above)) continue;
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

std::vector<faults::crash> faults::crashes(std::uint32_t nodes) {
  std::vector<crash> list;
  for (const auto& f : model_.list) {
    if (f.kind != fault_kind::crash) continue;
    for (std::uint32_t i = 0; i < f.times; ++i) {
      crash c{f.from, 0, f.restart_after, no_role};
      if (f.until != duration::max() && f.until > f.from)
        c.at += duration(static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>((f.until - f.from).count()))));
      if (!f.roles.empty())
        c.role = f.roles[random_.below(f.roles.size())];
      else if (!f.nodes.empty())
        c.node = f.nodes[random_.below(f.nodes.size())];
      else if (nodes > 1)
        c.node = 1 + static_cast<std::uint32_t>(random_.below(nodes - 1));
      else
        continue;  // the only node is the coordinator's
      if (c.node < nodes) list.push_back(c);
    }
  }
  std::stable_sort(list.begin(), list.end(), [](const crash& a, const crash& b) { return a.at < b.at; });
  return list;
}

}  // namespace troupe::sim
