#include "runtime/cluster/supervision/link_watch.hpp"

#include <algorithm>

#include "runtime/base/number_text.hpp"

namespace troupe {
namespace {

constexpr std::size_t least_links = 3;
constexpr double times = 1.5, share = 0.1, least_seconds = 0.005;

}  // namespace

std::string slow_link::text() const {
  const auto times_text = " takes " + fixed_text(1e3 * seconds, 1) + " ms, other connections " + fixed_text(1e3 * usual, 1) + " ms";
  return (peer.empty() ? "a round trip from and to " + node : node + " to " + peer + " and back") + times_text;
}

straggler_event event_of(const slow_link& l) {
  return {l.peer.empty() ? "connections of " + l.node : "connection of " + l.node + " and " + l.peer, l.node, 1e3 * l.seconds,
          1e3 * l.usual, l.text()};
}

std::vector<slow_link> link_watch::look(const std::vector<link_load>& all, double step_seconds, instant now) {
  if (since_ == instant{}) since_ = now;
  for (const auto& l : all) {
    if (l.round_trip <= 0) continue;
    const auto [at, isnew] = least_.try_emplace(std::minmax(l.node, l.peer), l.round_trip);
    at->second = std::min(at->second, l.round_trip);
  }
  if (now - since_ < window) return {};
  const auto slow = by_nodes(slow_in(step_seconds), least_);
  std::vector<slow_link> fresh;
  std::set<pair> names;
  for (const auto& [name, l] : slow) {
    names.insert(name);
    if (slow_before_.contains(name) && named_.insert(name).second) fresh.push_back(l);
  }
  std::erase_if(named_, [&](const pair& n) { return !names.contains(n); });
  slow_before_ = std::move(names);
  least_.clear();
  since_ = now;
  return fresh;
}

std::map<link_watch::pair, slow_link> link_watch::slow_in(double step_seconds) const {
  std::map<pair, slow_link> slow;
  if (least_.size() < least_links) return slow;
  std::vector<double> sorted;
  for (const auto& [name, seconds] : least_) sorted.push_back(seconds);
  std::sort(sorted.begin(), sorted.end());
  const auto middle = (sorted.size() - 2) / 2;  // lower median of the others: of three connections, a slow node has two
  for (const auto& [name, seconds] : least_) {
    const auto own = static_cast<std::size_t>(std::lower_bound(sorted.begin(), sorted.end(), seconds) - sorted.begin());
    const slow_link l{name.first, name.second, seconds, sorted[middle < own ? middle : middle + 1]};
    const double more = l.seconds - l.usual;
    if (l.seconds > times * l.usual && more >= least_seconds && more >= share * step_seconds) slow.emplace(name, l);
  }
  return slow;
}

std::map<link_watch::pair, slow_link> link_watch::by_nodes(std::map<pair, slow_link> slow, const std::map<pair, double>& all) {
  std::map<std::string, std::size_t> links, bad;
  for (const auto& [name, s] : all) ++links[name.first], ++links[name.second];
  for (const auto& [name, l] : slow) ++bad[name.first], ++bad[name.second];
  for (const auto& [node, n] : bad) {
    if (n < 2 || 2 * n <= links[node]) continue;
    slow_link whole{node, {}, 0, 0};
    for (const auto& [name, l] : slow)
      if (name.first == node || name.second == node)
        if (l.seconds > whole.seconds) whole.seconds = l.seconds, whole.usual = l.usual;
    if (whole.seconds == 0) continue;  // another node was named for them
    std::erase_if(slow, [&, at = node](const auto& l) { return l.first.first == at || l.first.second == at; });
    slow.emplace(pair{node, {}}, whole);
  }
  return slow;
}

}  // namespace troupe
