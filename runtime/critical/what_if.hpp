// How long a step would take if some of a job's work were faster: the job's own roles, in the
// simulator, with the times of tasks and messages that a trace has.
//
// What a trace does not have is the time that a message waits for a thread of its node. The
// simulation takes one time for all messages within a node (`local`), chosen so that its step takes
// as long as that of the trace, less 3 %.
//
// Limits: the times of tasks stay as they are if others become faster (on a machine whose memory is
// the limit they would shrink, too). Evaluations, checkpoints and the reading of data that is not a
// task are left out.
// Threads: one at a time. Errors: none after construction; a job that does not advance in the
// simulation has no step time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/job/job.hpp"
#include "runtime/messages/ids.hpp"
#include "runtime/trace/trace_file.hpp"

namespace troupe {

// What a trace says about the time of a job: how long the tasks of each role took, how long
// messages were under way between nodes, and how long a step took.
// Pure. Errors: none; what a trace does not have is empty.
struct observed_run {
  // By role and kind of task, in the order in which they ended.
  std::map<std::pair<std::string, std::string>, std::vector<duration>> tasks;
  // By node and node: sizes in bytes, and the times of the messages of that size. The trace ends
  // the time of a message when its receiver takes it; messages that mostly waited for a thread of
  // their node are left out.
  std::map<std::pair<std::string, std::string>, std::map<std::uint64_t, std::vector<duration>>> links;
  std::uint64_t steps = 0;  // that the trace has in whole
  double step_seconds = 0;  // of one of these, on average; 0: too few
  // Seconds in a step that the role computes.
  double busy(const std::string& role) const;
};

// Leaves out the first tenth of the trace, in which pools and caches fill.
observed_run observed_in(const trace_file& t);

// Factors on times. A role or link that is in no list keeps its times.
struct faster_work {
  std::map<std::string, double> roles;                               // by name
  std::map<std::pair<std::string, std::string>, double> links = {};  // by nodes
};

class what_if {
 public:
  // `j`: without data (make_counted()). `threads`: of each node of its plan.
  what_if(std::shared_ptr<const prepared_job> j, observed_run seen, unsigned threads);

  const observed_run& seen() const { return seen_; }
  const job_plan& plan() const { return job_->plan; }
  // Seconds of a step; nullopt: the simulated job does not advance.
  std::optional<double> step_seconds(const faster_work& f) const;
  // The same without changes.
  double simulated_step() const { return simulated_; }

 private:
  std::optional<double> simulate(const faster_work& f, duration local) const;
  void calibrate();

  const std::shared_ptr<const prepared_job> job_;
  const observed_run seen_;
  const unsigned threads_;
  duration local_{};
  double simulated_ = 0;
};

}  // namespace troupe
