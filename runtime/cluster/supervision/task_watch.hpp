// Detects tasks that have been running for too long, and tells a job with a long task from one that
// is stuck. Pure: the caller passes the nodes' last reports at intervals. The time between two
// calls of look() counts as running time, at most `max_a_look`, so that time in which this process
// was stopped does not count.
//
//   watchdog    a task that has been running for this long is reported, once
//   times       so is one that has been running for `times` the median of its role's last tasks of
//               its kind, and for at least `least`
//   give_up     a task that has been running for this long counts as hung
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/cluster/view/role_published.hpp"

namespace troupe {

struct task_limits {
  std::chrono::duration<double> watchdog = std::chrono::seconds(60), give_up = std::chrono::minutes(30);
  double times = 20;
  std::chrono::duration<double> least = std::chrono::seconds(2);
};

// A running task, as its node last reported it.
struct watched_task {
  std::string node;  // empty: this process
  std::string role;
  running_task task;
};

// "forward of packet 3 of step 12, for 2.1 s"; empty if no task runs.
std::string task_text(const running_task& t);

struct overlong_task {
  watched_task what;
  double seconds = 0;  // for which it was seen running
  std::string layer() const;
  std::string text() const;
};
slow_task_event slow_task_of(const overlong_task& t);

class task_watch {
 public:
  using instant = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::duration<double> max_a_look = std::chrono::seconds(2);

  explicit task_watch(task_limits l = {}) : limits_(l) {}
  struct findings {
    bool runs = false;                      // at least one task runs
    std::vector<overlong_task> overlong{};  // tasks that passed the `watchdog` limit at this call
    std::optional<overlong_task> hung{};
  };
  findings look(const std::vector<watched_task>& running, instant now);

 private:
  using key = std::tuple<std::string, std::string, std::uint64_t>;
  struct seen {
    std::chrono::duration<double> ran{};
    bool notified = false;
  };
  task_limits limits_;
  std::map<key, seen> seen_;
  std::optional<instant> last_;
};

}  // namespace troupe
