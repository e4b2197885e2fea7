// Writes the trace of a simulated run in Chrome's JSON format, for Perfetto: a process for each
// node, a thread for each role with its tasks, and messages between nodes as asynchronous slices of
// the sender. Times are virtual.
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
  // Completes the file. Returns false if writing has failed.
  bool finish();

 private:
  void item();

  std::ofstream out_;
  const job_plan& plan_;
  std::uint64_t messages_ = 0;
  bool first_ = true;
};

}  // namespace troupe
