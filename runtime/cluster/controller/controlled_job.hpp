// A job in the cluster controller, from its submission until it is forgotten, and the table of all.
//
// The functions of job_phases.hpp, job_events.hpp, job_commands.hpp, plan_changes.hpp and
// node_failures.hpp govern one job. They get a `job_call`: that job, the nodes, the time and the
// orders to append to, and nothing of other jobs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/cluster/admission.hpp"
#include "runtime/cluster/controller/event_log.hpp"
#include "runtime/cluster/controller/job_recovery.hpp"
#include "runtime/cluster/controller/job_run.hpp"
#include "runtime/cluster/controller/membership.hpp"
#include "runtime/cluster/controller/open_commands.hpp"
#include "runtime/cluster/controller/orders.hpp"
#include "runtime/cluster/controller/replanning.hpp"
#include "runtime/cluster/controller/submission.hpp"
#include "runtime/cluster/view/view.hpp"

namespace troupe::control {

// Files of a job on the coordinator's node.
struct job_files {
  struct checkpoint {
    std::string path;
    std::uint64_t step = 0;
    instant at{};  // when it was announced
  };
  std::optional<checkpoint> kept;  // the newest since this daemon started
  std::string unsaved;             // why the last checkpoint of a job that stops is not in its folder; empty: it is
  std::string weights;             // path of the final ones; empty: none
};

struct controlled_job {
  std::uint32_t id = 0;
  submission from;
  // Of the running plan. Before `queued`: of the check so far.
  checked plan;
  // What users see of it; its `state` is set when the job is over, else that of state() counts.
  repl_job view;
  job_run run;
  event_log log;
  replanning plans;
  job_recovery recovery;
  open_commands commands;
  job_files files;

  // For users. Both are decided here alone.
  job_state state() const;
  job_activity doing() const;

  bool uses(const std::string& node) const { return plan.uses(node); }
  // The node is part of the running plan or the next one, or is awaited.
  bool has_part(const std::string& node) const;
  // "job 7"
  std::string text() const { return "job " + std::to_string(number_of(id)); }
};

class job_table {
 public:
  controlled_job& add(std::uint32_t id);
  void erase(std::uint32_t id) { jobs_.erase(id); }
  controlled_job* find(std::uint32_t id);
  const controlled_job* find(std::uint32_t id) const;
  // By its id or the number that users see.
  controlled_job* find_either(std::uint32_t id);
  const controlled_job* find_either(std::uint32_t id) const;
  bool has_number(std::uint32_t number) const;
  const std::map<std::uint32_t, controlled_job>& all() const { return jobs_; }
  std::map<std::uint32_t, controlled_job>& all() { return jobs_; }
  // Calls `what` for the jobs for which `which` holds at that moment. `what` may erase the job.
  template <class Which, class What>
  void for_each(const Which& which, const What& what) {
    for (auto at = jobs_.begin(); at != jobs_.end();) {
      auto& j = (at++)->second;
      if (which(j)) what(j);
    }
  }
  // Removes jobs that are over, except `but`, so that finished_kept remain: the oldest of the owner
  // with the most first.
  void forget_old(const std::set<std::uint32_t>& but);

 private:
  std::map<std::uint32_t, controlled_job> jobs_;  // by id
};

// One call of the controller about one job.
struct job_call {
  controlled_job& j;
  membership& nodes;
  const std::set<std::string>& slow;  // clients with a long queue: they get no `step` events
  bool draining;                      // this daemon shuts down
  instant now;
  orders& out;

  const std::string& self() const { return nodes.self(); }
  void send(const std::string& peer, message m) { out.emplace_back(to_peer{peer, std::move(m)}); }
  void tell(command c) { out.emplace_back(tell_job{j.id, std::move(c)}); }  // the coordinator role
  void log(std::string text) { out.emplace_back(log_line{std::move(text)}); }
};

// What the parts of the controller share.
struct controller_state {
  membership nodes;
  job_table jobs;
  std::uint32_t active = 0;    // the job that is gathering, preparing, running or ending; 0: none
  std::set<std::string> slow;  // as in job_call
  bool draining = false;

  job_call about(controlled_job& j, instant now, orders& out) { return {j, nodes, slow, draining, now, out}; }
};

}  // namespace troupe::control
