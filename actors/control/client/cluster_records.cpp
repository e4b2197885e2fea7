#include "actors/control/client/cluster_records.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/cluster/role_entries.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;
constexpr auto patience = 2s;
// Read of one node before all is written: more than a record holds, so that a node whose roles are
// faster than the connection does not hold up the others.
constexpr std::size_t most_at_once = 400000;

}  // namespace

cluster_records::source& cluster_records::source_of(const node_links::node& n, const control::looked& a) {
  auto& s = sources_[n.where.node];
  if (s.answered && s.incarnation != a.incarnation) {
    s = {};
    s.restarted = true;
  }
  s.incarnation = a.incarnation;
  s.answered = true;
  return s;
}

void cluster_records::align(int times) {
  for (auto& n : from_.nodes())
    for (int i = 0; i < times; ++i) {
      const auto asked = now();
      const auto a = from_.ask(n, {}, patience);
      if (!a) break;
      source_of(n, *a).clock.add(asked, time_point(a->now), now());
    }
}

void cluster_records::take(source& s, const control::looked& a) {
  s.read = a.read;
  s.lost += a.lost;
  for (const auto& e : a.activities)
    if (const auto made = control::activity_in(e, a.task_kinds))
      s.all.push_back(*made);
    else
      s.unreadable = true;
  for (const auto& n : a.names) s.names.push_back({time_point(n.since), n.job, n.roles});
  if (s.names.size() > activity_recorder::plans_named)
    s.names.erase(s.names.begin(), s.names.end() - activity_recorder::plans_named);
}

void cluster_records::read(trace_writer* to) {
  for (auto& [name, s] : sources_) s.all.clear();
  bool more = true;
  while (more) {
    more = false;
    const auto wanted = [&](const node_links::node& n) {
      const auto& s = sources_[n.where.node];
      return control::look{.most = s.all.size() < most_at_once ? control::max_activities : 0,
                           .read = s.read,
                           .named_since = s.names.empty() ? 0 : s.names.back().since.count()};
    };
    const auto answers = from_.ask_all(wanted, patience);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (!answers[i]) continue;
      auto& s = source_of(from_.nodes()[i], *answers[i]);
      if (answers[i]->read.empty() && !answers[i]->activities.empty()) continue;  // no daemon answers so
      if (s.all.size() >= most_at_once) continue;
      take(s, *answers[i]);
      more |= answers[i]->more && !answers[i]->activities.empty() && s.all.size() < most_at_once;
    }
  }
  if (to == nullptr) return;
  for (const auto& [name, s] : sources_) to->name(name, s.names, s.clock.shift());
  for (auto& [name, s] : sources_) {
    to->add(name, s.all, s.clock.shift());
    to->lost(std::exchange(s.lost, 0));
  }
}

const std::vector<activity>& cluster_records::latest(const std::string& node) const {
  static const std::vector<activity> none;
  const auto at = sources_.find(node);
  return at == sources_.end() ? none : at->second.all;
}

std::vector<std::string> cluster_records::notes() const {
  std::vector<std::string> all;
  duration worst{};
  for (const auto& n : from_.nodes()) {
    const auto at = sources_.find(n.where.node);
    if (at == sources_.end() || !at->second.answered)
      all.push_back("node " + n.where.node + " is not in it: " + n.trouble);
    else if (!n.trouble.empty())
      all.push_back("node " + n.where.node + " is in it only in part: " + n.trouble);
    else if (at->second.restarted)
      all.push_back("node " + n.where.node + " was restarted; what it did before may be missing");
    if (at == sources_.end()) continue;
    if (at->second.unreadable)
      all.push_back("node " + n.where.node + " sent activities of another version of Troupe; they are left out");
    worst = std::max(worst, at->second.clock.error_at(now()));
  }
  all.push_back("the nodes' clocks are aligned to " +
                std::to_string(std::llround(std::ceil(static_cast<double>(worst.count()) / 1e3))) + " us");
  return all;
}

}  // namespace troupe
