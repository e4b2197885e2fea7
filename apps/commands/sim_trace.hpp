// A simulated run as a trace in Chrome's JSON format, which Perfetto opens: a process per node, a
// thread per role with its tasks, and the messages between nodes as asynchronous slices of the
// sender. Times are virtual.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

#include "runtime/messages/message.hpp"
#include "runtime/plan/plan.hpp"

namespace troupe {

class sim_trace {
 public:
  sim_trace(const std::string& file, const job_plan& plan);
  void task(role_id who, const char* kind, time_point begin, time_point end);
  void message(const envelope& e, time_point sent, time_point arrived);
  // False when something could not be written.
  bool finish();

 private:
  void item();

  std::ofstream out_;
  const job_plan& plan_;
  std::uint64_t messages_ = 0;
  bool first_ = true;
};

}  // namespace troupe
