// Embedded mode: a whole job, all its roles, in this process; no port is opened. What `troupe train
// JOB` does, and what a program that links Troupe may do from its own main().
//
//   embedded_options o;
//   o.on_event = print;
//   auto result = embedded_run(job, o).run();  // returns when the job is over
//
// Threads: run() may be called once, by one thread, and calls all callbacks on that thread; the
// actors run on threads of their own. stop() and command() may be called by any thread at any time,
// callbacks included.
// Errors: run() never throws and never hangs. The job ends with an error when a role says "error",
// and when for `stall_after` no role of the job handled a message and no task ran (and the job is
// not paused). A task that runs for longer than `tasks.watchdog` is named by the event "alert"; one
// that does not end within `tasks.give_up` ends the job, and run() returns while its thread is
// still in it: `hung` says so, the host is left behind, and the process should end soon, by _exit.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/supervision/task_watch.hpp"
#include "actors/view/failed_job.hpp"
#include "runtime/job/job.hpp"
#include "runtime/role.hpp"

namespace troupe {

class node_host;

struct embedded_options {
  unsigned threads = 0;  // of the scheduler; 0: one per core
  // Where jobs run, by number in the job's list of devices; empty: the CPU.
  std::vector<std::shared_ptr<device>> devices;
  std::function<void(const event_effect&)> on_event;
  // "checkpoint" and "weights", before the event that goes with them. A checkpoint that the
  // callback cannot save it reports itself.
  std::function<void(const store_effect&)> on_store;
  std::chrono::seconds stall_after{120};
  task_limits tasks{};
  // Where a failed job leaves a folder (runtime/node/post_mortem.hpp), and what it was made of;
  // none: it leaves nothing.
  std::optional<job_origin> post_mortem{};
  std::optional<beginning_file> begins{};  // that it was resumed from, or whose weights it was given
};

struct embedded_result {
  bool ok = false;       // false: `error` says why
  bool stopped = false;  // ended early by stop()
  bool hung = false;     // a task was given up: its thread still runs, and nothing of the job is let go of
  std::string where;     // of the error: the role, or empty
  std::string error;
  std::string post_mortem;                              // the folder that says more; or, where it could not be made, why
  std::uint64_t step = 0;                               // last complete one
  std::vector<std::pair<std::string, double>> done;     // values of the event "done"
  std::vector<std::pair<std::string, tensor>> weights;  // final, in layer order
  std::string weights_sha256;
};

class embedded_run {
 public:
  // `j` as prepared for one node.
  embedded_run(std::shared_ptr<const prepared_job> j, embedded_options o);
  ~embedded_run();
  embedded_run(const embedded_run&) = delete;
  embedded_run& operator=(const embedded_run&) = delete;

  embedded_result run();

  // Ends the job at the next step boundary, with a checkpoint.
  void stop();
  // A person's word: pause, resume, checkpoint, eval, set, move LAYER local, ... Answered by
  // events. While layers move, others wait.
  void command(troupe::command c);
  // Shows the host of the job's roles to `look`, for those who want to look inside; false before
  // run() and after. run() ends behind it: the host dies on the thread that made it (CAF's logger
  // waits for that thread), so nobody else may hold it.
  bool look(const std::function<void(const node_host&)>& look) const;
  // The same, for who knows that run() goes on until it has been let go of.
  std::shared_ptr<node_host> host() const;

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe
