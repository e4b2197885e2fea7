#include "runtime/critical/causes.hpp"

#include <algorithm>
#include <map>

namespace troupe {
namespace {

constexpr double half = 0.5;
constexpr double as_good = 0.9;  // of the largest gain

step_cause cause_of(std::string name, const std::vector<std::string>& roles, const observed_run& o) {
  step_cause c{std::move(name), roles.size(), {}, 0, 0};
  for (const auto& r : roles) {
    c.half.roles[r] = half;
    c.busy = std::max(c.busy, o.busy(r));
  }
  return c;
}

// "conv1 of all workers", "all shards", "all workers"; empty: the role has no peers.
std::string group_of(const std::string& role) {
  const auto slash = role.find('/');
  if (slash != std::string::npos && role.starts_with("worker")) return role.substr(slash + 1) + " of all workers";
  const auto end = role.find_last_not_of("0123456789");
  return slash == std::string::npos && end + 1 < role.size() ? "all " + role.substr(0, end + 1) + "s" : std::string();
}

void keep_busiest(std::vector<step_cause>& all, std::size_t most) {
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.busy > b.busy; });
  if (all.size() > most) all.resize(most);
}

std::vector<step_cause> role_causes(const what_if& w, std::size_t most) {
  std::map<std::string, std::vector<std::string>> groups;
  std::vector<step_cause> all;
  for (const auto& r : w.plan().roles) {
    if (w.seen().busy(r.name) <= 0) continue;
    all.push_back(cause_of(r.name, {r.name}, w.seen()));
    if (const auto group = group_of(r.name); !group.empty()) groups[group].push_back(r.name);
  }
  keep_busiest(all, most);
  for (const auto& [name, roles] : groups)
    if (roles.size() > 1) all.push_back(cause_of(name, roles, w.seen()));
  return all;
}

std::vector<step_cause> link_causes(const what_if& w, std::size_t most) {
  std::vector<step_cause> all;
  std::map<std::string, step_cause> groups;  // all links, and those of a node
  const auto add_to = [&](const std::string& group, const step_cause& c) {
    auto& g = groups.try_emplace(group, step_cause{group, 0, {}, 0, 0}).first->second;
    g.half.links.insert(c.half.links.begin(), c.half.links.end());
    g.busy = std::max(g.busy, c.busy);
    ++g.parts;
  };
  for (const auto& [nodes, by_size] : w.seen().links) {
    step_cause c{"link " + nodes.first + " to " + nodes.second, 1, {}, 0, 0};
    c.half.links[nodes] = half;
    for (const auto& [bytes, times] : by_size)
      for (const auto& t : times) c.busy += seconds_of(t) / static_cast<double>(std::max<std::uint64_t>(1, w.seen().steps));
    add_to("all links", c);
    add_to("links of " + nodes.first, c);
    add_to("links of " + nodes.second, c);
    all.push_back(std::move(c));
  }
  keep_busiest(all, most);
  std::vector<step_cause> several;
  for (auto& [name, g] : groups)
    if (g.parts > 1) several.push_back(std::move(g));
  keep_busiest(several, most);
  for (auto& g : several) all.push_back(std::move(g));
  return all;
}

}  // namespace

std::vector<step_cause> step_causes(const what_if& w, std::size_t most) {
  auto all = role_causes(w, most);
  for (auto& c : link_causes(w, most)) all.push_back(std::move(c));
  for (auto& c : all) c.step_seconds = w.step_seconds(c.half).value_or(w.simulated_step());
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.step_seconds < b.step_seconds; });
  if (all.empty()) return all;
  const auto enough = w.simulated_step() - as_good * (w.simulated_step() - all.front().step_seconds);
  auto first = all.begin();
  for (auto at = all.begin(); at != all.end() && at->step_seconds <= enough; ++at)
    if (at->parts < first->parts) first = at;
  std::rotate(all.begin(), first, std::next(first));
  return all;
}

}  // namespace troupe
