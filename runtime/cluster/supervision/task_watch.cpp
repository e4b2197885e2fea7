#include "runtime/cluster/supervision/task_watch.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/base/number_text.hpp"

namespace troupe {

std::string task_text(const running_task& t) {
  if (t.serial == 0) return {};
  const auto packet = t.of_packet ? " of packet " + std::to_string(t.packet) + " of step " + std::to_string(t.step) : std::string();
  return t.kind + packet + ", for " + fixed_text(t.seconds, 1) + " s";
}

// Stages are named worker0/conv1; other roles have no layer.
std::string overlong_task::layer() const {
  const auto slash = what.role.find('/');
  return slash == std::string::npos ? std::string() : what.role.substr(slash + 1);
}

std::string overlong_task::text() const {
  const auto& t = what.task;
  std::string text = "the task '" + t.kind + "' of " + what.role;
  if (!what.node.empty()) text += " on node " + what.node;
  if (t.of_packet) text += ", packet " + std::to_string(t.packet) + " of step " + std::to_string(t.step) + ",";
  text += " has been running for " + std::to_string(std::llround(seconds)) + " s";
  if (t.usual <= 0) return text;
  return text + "; usually it takes " + general_text(1000 * t.usual, 3) + " ms";
}

slow_task_event slow_task_of(const overlong_task& t) {
  const auto packet = t.what.task.of_packet ? std::optional<std::uint64_t>(t.what.task.packet) : std::nullopt;
  return {t.seconds, packet, t.what.node, t.what.node.empty() ? std::string() : t.layer(), t.text()};
}

task_watch::findings task_watch::look(const std::vector<watched_task>& running, instant now) {
  const auto passed = last_ ? std::min<std::chrono::duration<double>>(now - *last_, max_a_look) : max_a_look.zero();
  last_ = now;
  findings found;
  std::map<key, seen> next;
  for (const auto& r : running) {
    if (r.task.serial == 0) continue;
    found.runs = true;
    const auto before = seen_.find({r.node, r.role, r.task.serial});
    auto& mine = next[{r.node, r.role, r.task.serial}];
    if (before == seen_.end()) continue;
    mine = before->second;
    mine.ran += passed;
    const overlong_task one{r, mine.ran.count()};
    const bool unusual = r.task.usual > 0 && mine.ran >= limits_.least && mine.ran.count() >= limits_.times * r.task.usual;
    if ((mine.ran >= limits_.watchdog || unusual) && !std::exchange(mine.notified, true)) found.overlong.push_back(one);
    if (mine.ran >= limits_.give_up && !found.hung) found.hung = one;
  }
  seen_ = std::move(next);
  return found;
}

}  // namespace troupe
