// Embedded mode: a whole job with all its roles in this process, without opening a port. Used by
// `troupe train JOB`, and by programs that link Troupe.
//
//   embedded_options o;
//   o.on_event = print;
//   auto result = embedded_run(job, o).run();  // returns when the job is over
//
// Threads: run() may be called once, by one thread, and calls all callbacks on that thread; the
// actors run on threads of their own. stop() and command() may be called by any thread at any time,
// also by callbacks.
// Errors: run() never throws and never hangs. The job ends with an error when a role reports
// "error", or when for `stall_after` no role handled a message and no task ran while the job was
// not paused. A task that runs for longer than `tasks.watchdog` is reported by the event "alert". A
// task that does not end within `tasks.give_up` ends the job, and run() returns while the task's
// thread still runs: `hung` is true then, the host is leaked, and the process should end soon, by
// _exit.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/post_mortem/failed_job.hpp"
#include "runtime/base/result.hpp"
#include "runtime/cluster/supervision/straggler_watch.hpp"
#include "runtime/cluster/supervision/task_watch.hpp"
#include "runtime/job/job.hpp"
#include "runtime/role.hpp"
#include "runtime/trace/recording.hpp"

namespace troupe {

class node_host;

struct embedded_options {
  unsigned threads = 0;  // of the scheduler; 0: one per core
  // Devices of the job, by their number in its list of devices; empty: the CPU.
  std::vector<std::shared_ptr<device>> devices;
  std::function<void(const event_effect&)> on_event;
  // Called for checkpoints, best and final weights, before the event that belongs to them. The
  // callback itself reports a checkpoint that it cannot save.
  std::function<void(const store_effect&)> on_store;
  std::function<void()> on_tick;  // called at least four times a second, also while the job is paused
  std::chrono::seconds stall_after{120};
  task_limits tasks{};
  // Where a failed job writes its post-mortem folder, and where plans are recorded
  // (runtime/node/post_mortem.hpp); none: neither.
  std::optional<job_origin> origin{};
  std::optional<beginning_file> begins{};        // the checkpoint or weights that the job starts from
  std::string trace{};                           // file for a trace of the whole run (runtime/trace/recording.hpp); empty: none
  std::optional<std::size_t> activity_record{};  // as in host_config; 0: the run cannot be traced
};

struct embedded_result {
  bool ok = false;       // false: `error` says why
  bool stopped = false;  // ended early by stop()
  bool hung = false;     // a task did not end: its thread still runs, and the job's memory is not released
  std::string where;     // role of the error, or empty
  std::string error;
  std::string post_mortem;                              // the post-mortem folder, or why there is none
  std::uint64_t step = 0;                               // the last complete one
  done_event done;                                      // the last event of a job that has not failed
  std::vector<std::pair<std::string, tensor>> weights;  // final, in layer order
  std::string weights_sha256;
  std::optional<expected<trace_summary>> trace;  // of a trace that was not stopped before; nullopt: there was none
};

class embedded_run {
 public:
  // `j`: prepared for one node.
  embedded_run(std::shared_ptr<const prepared_job> j, embedded_options o);
  ~embedded_run();
  embedded_run(const embedded_run&) = delete;
  embedded_run& operator=(const embedded_run&) = delete;

  embedded_result run();

  // Ends the job at the next step boundary, with a checkpoint.
  void stop();
  // Ends the job at once, without a checkpoint, also if it is paused or a task hangs; `why` is its
  // error. If a task does not end within 5 s, the result is `hung`.
  void kill(const std::string& why);
  // A user's command: pause, resume, checkpoint, eval, set, move LAYER local, ... Answered by
  // events. While layers move, other commands wait.
  void command(troupe::command c);
  // Begins to write what the roles do to a trace file; one at a time. An error if the run has not
  // begun or is over.
  expected<void> start_trace(const std::string& file);
  // Completes that file. An error if there is none.
  expected<trace_summary> stop_trace();
  // Calls `look` with the host of the job's roles. Returns false before run() and after it. run()
  // waits for `look` to return: the host must be destroyed on the thread that made it (CAF's logger
  // waits for that thread), so no other thread may hold it.
  bool look(const std::function<void(const node_host&)>& look) const;
  // The host itself, for callers that release it before run() ends.
  std::shared_ptr<node_host> host() const;

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe
