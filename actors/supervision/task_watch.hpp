// Which tasks have been running for too long: told apart from a job in which nobody does anything.
// Pure: it is shown what nodes have said last, again and again, and counts the time between two
// looks (at most `most_a_look`: a process that was stopped for an hour has not seen a task run for
// an hour).
//
//   watchdog    a task that has been running for so long is named, once
//   give_up     one that has been running for so long is taken for hung
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "actors/shell/node_host.hpp"

namespace troupe {

struct task_limits {
  std::chrono::duration<double> watchdog = std::chrono::seconds(60), give_up = std::chrono::minutes(30);
};

// A task that runs, as its node says.
struct watched_task {
  std::string node;  // empty: this process
  std::string role;
  running_task task;
};

// "forward of packet 3 of step 12, for 2.1 s"; empty: none runs.
std::string task_text(const running_task& t);

struct overlong_task {
  watched_task what;
  double seconds = 0;  // that it was seen running
  std::string layer() const;
  std::string text() const;
  std::vector<std::pair<std::string, double>> values() const;
};

class task_watch {
 public:
  using instant = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::duration<double> max_a_look = std::chrono::seconds(2);

  explicit task_watch(task_limits l = {}) : limits_(l) {}
  struct findings {
    bool runs = false;                      // somebody computes
    std::vector<overlong_task> overlong{};  // since this look
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
