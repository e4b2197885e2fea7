// Writes the trace of a simulated run (runtime/trace/timeline.hpp). Times are virtual.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "runtime/plan/plan.hpp"
#include "runtime/trace/timeline.hpp"
#include "runtime/trace/trace_writer.hpp"

namespace troupe {

class sim_trace {
 public:
  static expected<std::unique_ptr<sim_trace>> open(const std::string& file, const job_plan& plan, const trace_job& job);

  void task(role_id who, const char* kind, const std::optional<header>& packet, time_point begin, time_point end);
  // A message between two nodes.
  void crossed(const envelope& e, time_point sent, time_point arrived);
  // A message that a role is about to receive, and its state before.
  void delivered(const envelope& e, const role_status& before, time_point now);
  // Completes the file.
  expected<void> finish() { return out_.finish(); }

 private:
  sim_trace(track_event_file&& out, const job_plan& plan) : out_(std::move(out)), plan_(plan) {}
  void add(activity a, time_point at);
  bool known(role_id r) const { return index_of(r) < plan_.roles.size(); }

  track_event_file out_;
  timeline lines_{out_};
  const job_plan& plan_;
  std::uint64_t messages_ = 0;
};

}  // namespace troupe
