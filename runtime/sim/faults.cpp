#include "runtime/sim/faults.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::sim {

faults::faults(fault_model m, std::uint64_t seed) : model_(std::move(m)), random_(seed ^ 0x6661756c74730a0dull) {
  for (const auto& f : model_.list) {
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
    if (f.kind >= fault_kind::slow || (f.kind == fault_kind::duplicate && f.above)) continue;
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

namespace {

// Returns the groups of nodes that crash together; each node is its own group if the fault names no
// groups. Node 0 is included only if the fault names it.
std::vector<std::vector<std::uint32_t>> groups_of(const fault& f, std::uint32_t nodes) {
  auto all = f.groups;
  std::vector<std::uint32_t> each = f.nodes;
  if (each.empty())
    for (std::uint32_t n = 1; n < nodes; ++n) each.push_back(n);
  if (all.empty() && f.rack == 0)
    for (auto n : each) all.push_back({n});
  if (all.empty()) {
    all.resize((nodes + f.rack - 1) / f.rack);
    for (auto n : each)
      if (n < nodes) all[n / f.rack].push_back(n);
  }
  for (auto& g : all) std::erase_if(g, [&](auto n) { return n >= nodes; });
  std::erase_if(all, [](const auto& g) { return g.empty(); });
  return all;
}

}  // namespace

void faults::add_drawn(const fault& f, std::uint32_t nodes, std::vector<crash>& list) {
  const bool together = f.rack > 0 || !f.groups.empty();
  const auto groups = together ? groups_of(f, nodes) : std::vector<std::vector<std::uint32_t>>();
  for (std::uint32_t i = 0; i < f.times; ++i) {
    crash c{f.from, 0, f.restart_after, no_role};
    if (f.until != duration::max() && f.until > f.from)
      c.at += duration(static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>((f.until - f.from).count()))));
    if (together) {
      if (groups.empty()) continue;
      for (auto n : groups[random_.below(groups.size())]) {
        c.node = n;
        list.push_back(c);
      }
      continue;
    }
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

std::vector<faults::crash> faults::crashes(std::uint32_t nodes) {
  std::vector<crash> list;
  for (const auto& f : model_.list) {
    if (f.kind != fault_kind::crash) continue;
    if (f.when == crash_times::times) add_drawn(f, nodes, list);
    for (const auto& m : f.moments)
      if (m.node < nodes) list.push_back({m.at, m.node, m.down.count() < 0 ? f.restart_after : m.down, no_role});
  }
  std::stable_sort(list.begin(), list.end(), [](const crash& a, const crash& b) { return a.at < b.at; });
  return list;
}

std::vector<faults::unit> faults::units(std::uint32_t nodes) const {
  std::vector<unit> all;
  for (std::size_t i = 0; i < model_.list.size(); ++i) {
    const auto& f = model_.list[i];
    if (f.kind != fault_kind::crash || (f.when != crash_times::exponential && f.when != crash_times::weibull)) continue;
    for (auto& g : groups_of(f, nodes)) all.push_back({i, std::move(g)});
  }
  return all;
}

duration faults::next_crash(const unit& u) {
  const auto& f = model_.list[u.fault];
  auto seconds = f.mean * random_.exponential();
  if (f.when == crash_times::weibull) seconds = f.mean / std::tgamma(1 + 1 / f.shape) * std::pow(seconds / f.mean, 1 / f.shape);
  return duration(static_cast<std::int64_t>(1e9 * std::min(seconds, 9e9)));
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
