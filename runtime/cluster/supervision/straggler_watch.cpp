#include "runtime/cluster/supervision/straggler_watch.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "runtime/base/median.hpp"
#include "runtime/base/number_text.hpp"

namespace troupe {
namespace {

constexpr std::size_t least_members = 3;  // of a group
constexpr double most_of_it = 0.6;        // of what a worker exceeds its peers by

// "worker3" of "worker3/conv1" and "worker3"; empty for other roles.
std::string worker_of(const std::string& role) {
  const auto slash = role.find('/');
  if (slash != std::string::npos) return role.substr(0, slash);
  return peers_of(role) == "worker" ? role : std::string();
}

// The roles of a worker are at its step. A stage knows the step of its packets only.
void take_steps_of_workers(std::vector<role_load>& all) {
  std::map<std::string, std::uint64_t> of_workers;
  for (const auto& r : all)
    if (worker_of(r.role) == r.role) of_workers[r.role] = r.step;
  for (auto& r : all)
    if (const auto w = of_workers.find(worker_of(r.role)); w != of_workers.end()) r.step = w->second;
}

std::string milliseconds(double seconds) { return fixed_text(1e3 * seconds, 1) + " ms"; }

}  // namespace

std::string peers_of(const std::string& role) {
  if (role.starts_with("tester")) return role;
  if (const auto slash = role.find('/'); slash != std::string::npos) return role.substr(slash + 1);
  auto end = role.size();
  while (end > 0 && std::isdigit(static_cast<unsigned char>(role[end - 1])) != 0) --end;
  return role.substr(0, end);
}

std::string straggler::text() const {
  return role + " at " + node + " takes " + milliseconds(seconds) + " for a step, its " + std::to_string(peers) + " peers " +
         milliseconds(usual) + ": it costs " + milliseconds(costs());
}

straggler_event event_of(const straggler& s) { return {s.role, s.node, 1e3 * s.seconds, 1e3 * s.usual, s.text()}; }

std::vector<straggler> straggler_watch::look(std::vector<role_load> all, instant now) {
  take_steps_of_workers(all);
  times of_roles;  // in the window
  std::map<std::string, double> steps;
  std::vector<double> made_by;
  for (const auto& r : all) {
    const auto then = begun_.find(r.role);
    if (then == begun_.end()) continue;
    if (r.busy < then->second.busy) return open(all, now), std::vector<straggler>();  // restarted
    if (r.step <= then->second.step) continue;
    made_by.push_back(steps[r.role] = static_cast<double>(r.step - then->second.step));
    of_roles[r.role] = {r.node, r.busy - then->second.busy};
  }
  if (begun_.empty()) return open(all, now), std::vector<straggler>();
  if (made_by.empty()) return {};
  const double made = upper_median(made_by);
  if (made < static_cast<double>(limits_.steps)) return {};
  // Roles are looked at in the middle of a step: those of a job in lockstep have made equally many,
  // though some are a step ahead now.
  for (auto& [role, t] : of_roles) t.seconds /= std::abs(steps[role] - made) <= 2 ? made : steps[role];
  step_seconds_ = std::chrono::duration<double>(now - since_).count() / made;
  auto found = close(of_roles, step_seconds_);
  open(all, now);
  return found;
}

void straggler_watch::open(const std::vector<role_load>& all, instant now) {
  begun_.clear();
  for (const auto& r : all) begun_[r.role] = {r.step, r.busy};
  since_ = now;
}

std::vector<straggler> straggler_watch::close(const times& of_roles, double step_seconds) {
  const auto slow = slow_of(of_roles, step_seconds);
  std::erase_if(named_, [&](const auto& n) { return !slow.contains(n.first); });
  std::vector<straggler> fresh;
  for (const auto& [role, s] : slow) {
    const bool known = named_.contains(role);
    if (known || slow_before_.contains(role)) named_[role] = s;
    if (!known && slow_before_.contains(role)) fresh.push_back(s);
  }
  slow_before_.clear();
  for (const auto& [role, s] : slow) slow_before_.insert(role);
  return fresh;
}

// The slow ones among peers.
std::map<std::string, straggler> straggler_watch::slow_in(const times& of_roles, double step_seconds) const {
  std::map<std::string, std::vector<times::const_iterator>> groups;
  for (auto r = of_roles.begin(); r != of_roles.end(); ++r) groups[peers_of(r->first)].push_back(r);
  std::map<std::string, straggler> slow;
  for (const auto& [name, members] : groups) {
    if (members.size() < least_members) continue;
    std::vector<double> sorted;
    for (const auto& m : members) sorted.push_back(m->second.seconds);
    std::sort(sorted.begin(), sorted.end());
    const auto middle = (sorted.size() - 1) / 2;  // upper median of the others
    for (const auto& m : members) {
      const auto seconds = m->second.seconds;
      const straggler s{m->second.node, m->first, members.size() - 1, seconds,
                        sorted[seconds <= sorted[middle] ? middle + 1 : middle]};
      if (s.seconds > limits_.times * s.usual && s.costs() >= limits_.least.count() && s.costs() >= limits_.share * step_seconds)
        slow.emplace(s.role, s);
    }
  }
  return slow;
}

std::map<std::string, straggler> straggler_watch::slow_of(const times& of_roles, double step_seconds) const {
  times of_workers;
  for (const auto& [role, t] : of_roles)
    if (const auto w = worker_of(role); !w.empty()) of_workers[w].node = t.node, of_workers[w].seconds += t.seconds;
  auto slow = slow_in(of_roles, step_seconds);
  for (const auto& [worker, whole] : slow_in(of_workers, step_seconds)) {
    double one = 0;  // of the slow role, if there is one only
    std::size_t roles = 0;
    for (const auto& [role, s] : slow)
      if (worker_of(role) == worker) ++roles, one = s.costs();
    if (roles == 1 && one >= most_of_it * whole.costs()) continue;
    std::erase_if(slow, [&, w = worker](const auto& s) { return worker_of(s.first) == w; });
    slow.emplace(worker, whole);
  }
  return slow;
}

}  // namespace troupe
