#include "runtime/sim/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/base/invariant.hpp"
#include "runtime/base/number_text.hpp"

namespace troupe::sim {
namespace {

void tidy(std::vector<std::uint32_t>& nodes, std::uint32_t count) {
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  std::erase_if(nodes, [&](auto n) { return n >= count; });
}

bool has(const std::vector<std::uint32_t>& nodes, std::uint32_t n) { return std::binary_search(nodes.begin(), nodes.end(), n); }

bool at_a_rate(const fault& f) { return f.when == crash_times::exponential || f.when == crash_times::weibull; }

// An independent stream of random numbers for each line of the model and each of its units.
random stream(std::uint64_t seed, std::size_t fault, std::size_t unit) {
  random r(seed ^ 0x7363686564756c65ull);
  for (const std::uint64_t part : {fault, unit}) r = random(r.next() ^ part);
  return r;
}

std::string names_of(const std::vector<std::uint32_t>& nodes, const std::vector<std::string>& names) {
  constexpr std::size_t shown = 8;
  std::string s;
  for (std::size_t i = 0; i < nodes.size() && i < shown; ++i)
    s += " " + (nodes[i] < names.size() ? names[nodes[i]] : "n" + std::to_string(nodes[i] + 1));
  if (nodes.size() > shown) s += " and " + std::to_string(nodes.size() - shown) + " more";
  return s;
}

std::string seconds_text(duration d) { return number_text(seconds_of(d)) + " s"; }

}  // namespace

bool cuts(const happening& h, fault_plane plane, std::uint32_t from, std::uint32_t to) {
  if (h.kind == fault_kind::partition) return has(h.nodes, from) != has(h.nodes, to);
  if (h.kind != fault_kind::cut || from == to || (h.plane != fault_plane::both && h.plane != plane)) return false;
  const auto one_way = [&](std::uint32_t a, std::uint32_t b) {
    return has(h.nodes, a) && (h.to.empty() ? !has(h.nodes, b) : has(h.to, b));
  };
  return one_way(from, to) || (h.both_ways && one_way(to, from));
}

std::string text_of(const happening& h, const std::vector<std::string>& names) {
  auto s = seconds_text(h.at) + ": " + text_of(h.kind) + names_of(h.nodes, names);
  if (h.kind == fault_kind::cut) {
    s += h.to.empty() ? " from all others" : " from" + names_of(h.to, names);
    s += h.both_ways ? ", both ways" : ", one way";
    if (h.plane != fault_plane::both) s += std::string(", ") + plane_words[static_cast<std::uint8_t>(h.plane)];
  }
  if (h.factor != 1) s += " by " + number_text(h.factor);
  if (h.ahead != duration{}) s += ", " + seconds_text(h.ahead) + " ahead";
  if (h.length >= duration{}) {
    const bool starts = h.kind == fault_kind::kill || h.kind == fault_kind::lose || h.kind == fault_kind::drain;
    s += (starts ? ", back after " : ", for ") + seconds_text(h.length);
  }
  return s;
}

std::vector<std::vector<std::uint32_t>> groups_of(const fault& f, std::uint32_t nodes) {
  auto all = f.groups;
  std::vector<std::uint32_t> each = f.nodes;
  if (each.empty())
    for (std::uint32_t n = 1; n < nodes; ++n) each.push_back(n);
  if (all.empty() && f.rack == 0)
    for (auto n : each) all.push_back({n});
  if (all.empty() && f.rack > 0) {
    all.resize((nodes + f.rack - 1) / f.rack);
    for (auto n : each)
      if (n < nodes) all[n / f.rack].push_back(n);
  }
  for (auto& g : all) std::erase_if(g, [&](auto n) { return n >= nodes; });
  std::erase_if(all, [](const auto& g) { return g.empty(); });
  return all;
}

duration time_to_next(const fault& f, random& draws) {
  auto seconds = f.mean * draws.exponential();
  if (f.when == crash_times::weibull) seconds = f.mean / std::tgamma(1 + 1 / f.shape) * std::pow(seconds / f.mean, 1 / f.shape);
  return duration(static_cast<std::int64_t>(1e9 * std::min(seconds, 4e9)));
}

schedule::schedule(const fault_model& m, std::uint32_t nodes, std::uint64_t seed) : faults_(m.list), nodes_(nodes) {
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    auto& f = faults_[i];
    if (of_the_wire(f.kind)) continue;
    if (!at_a_moment(f.kind)) {
      const bool to_some = !f.to.empty();
      tidy(f.to, nodes);
      if (to_some && f.to.empty()) continue;
      const bool whole = f.kind == fault_kind::skew || f.until == duration::max();
      add(i, f.from, f.nodes, whole ? duration{-1} : f.until - f.from);
    } else if (f.when == crash_times::moments) {
      for (const auto& at : f.moments) add(i, at.at, {at.node}, at.down < duration{} ? f.restart_after : at.down);
    } else if (at_a_rate(f)) {
      std::size_t count = 0;
      for (auto& g : groups_of(f, nodes)) {
        units_.push_back({i, std::move(g), stream(seed, i, ++count)});
        plan_next(units_.size() - 1, f.from);
      }
    } else {
      add_drawn(i, stream(seed, i, 0));
    }
  }
}

happening schedule::made(std::size_t line, time_point at, std::vector<std::uint32_t> nodes, duration length) const {
  const auto& f = faults_[line];
  const bool cut = f.kind == fault_kind::cut;
  const bool factor = f.kind == fault_kind::slow || f.kind == fault_kind::slow_disk || f.kind == fault_kind::skew;
  happening h;
  h.at = at;
  h.kind = f.kind == fault_kind::crash ? fault_kind::kill : f.kind;
  h.nodes = std::move(nodes);
  tidy(h.nodes, nodes_);
  if (cut) h.to = f.to;
  if (cut) h.plane = f.plane;
  h.both_ways = cut && f.both_ways;
  h.length = length;
  if (factor) h.factor = f.factor;
  if (f.kind == fault_kind::skew) h.ahead = f.least;
  return h;
}

void schedule::add(std::size_t line, time_point at, std::vector<std::uint32_t> nodes, duration length) {
  auto h = made(line, at, std::move(nodes), length);
  if (h.nodes.empty()) return;
  due_.push({at, line, fixed_.size(), false});
  fixed_.push_back(std::move(h));
}

void schedule::add_drawn(std::size_t line, random draws) {
  const auto& f = faults_[line];
  const auto groups = groups_of(f, nodes_);
  const bool window = f.until != duration::max() && f.until > f.from;
  for (std::uint32_t i = 0; i < f.times && !groups.empty(); ++i) {
    auto at = f.from;
    if (window) at += duration(static_cast<std::int64_t>(draws.below(static_cast<std::uint64_t>((f.until - f.from).count()))));
    add(line, at, groups[draws.below(groups.size())], f.restart_after);
  }
}

void schedule::plan_next(std::size_t number, time_point from) {
  auto& u = units_[number];
  const auto wait = time_to_next(faults_[u.line], u.draws);
  if (wait > duration::max() - from || from + wait >= faults_[u.line].until) return;
  due_.push({from + wait, u.line, number, true});
}

std::optional<happening> schedule::next() {
  if (due_.empty()) return std::nullopt;
  const auto e = due_.top();
  due_.pop();
  if (!e.of_unit) return std::move(fixed_[e.number]);
  const auto away = faults_[e.line].restart_after;
  auto h = made(e.line, e.at, units_[e.number].nodes, away);
  if (away >= duration{} && away <= duration::max() - e.at) plan_next(e.number, e.at + away);
  return h;
}

std::vector<happening> draw_schedule(const fault_model& m, std::uint32_t nodes, std::uint64_t seed, duration until) {
  for (const auto& f : m.list)
    invariant(until != duration::max() || !at_a_moment(f.kind) || !at_a_rate(f) || f.until != duration::max(),
              "a schedule of a rate has an end");
  std::vector<happening> list;
  schedule s(m, nodes, seed);
  for (auto h = s.next(); h && h->at < until; h = s.next()) list.push_back(*std::move(h));
  return list;
}

fault_model to_model(const std::vector<happening>& list) {
  fault_model m;
  for (const auto& h : list) {
    auto& f = m.list.emplace_back();
    f.kind = h.kind;
    f.from = h.at;
    f.to = h.to;
    f.plane = h.plane;
    f.both_ways = h.both_ways;
    f.factor = h.factor;
    f.least = h.ahead;
    if (at_a_moment(h.kind) && h.nodes.size() > 1)
      f.groups = {h.nodes};
    else
      f.nodes = h.nodes;
    if (at_a_moment(h.kind))
      f.restart_after = h.length;
    else if (h.length >= duration{})
      f.until = h.at + h.length;
  }
  return m;
}

fault_model wire_faults(fault_model m) {
  std::erase_if(m.list, [](const fault& f) { return !of_the_wire(f.kind); });
  return m;
}

}  // namespace troupe::sim
