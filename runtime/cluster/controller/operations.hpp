// The blocking operations of the control plane: they read and write files, make plans, or wait
// until roles have ended. cluster_controller, member and their host request them; the job executor
// and the checker perform them on threads of their own, one operation at a time. One struct is one
// operation. Its fields are the request, and it declares
//
//   executor    who performs it: job_executor or checker
//   result      a value or an error; absent if the requester waits for no result
//   perform     calls the executor's function, on the executor's thread
//   deliver     passes the result to the function that takes it, on the requester's thread
//
// To add an operation: write its struct here, and name it in the list of those who request it
// (below); write the function of the executor (job_executor.hpp); request it, and take
// its result. The actors (actors/control/host) and operation.hpp need no change.
//
// perform and deliver are templates because the classes that they call include this file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/cluster/controller/operation.hpp"
#include "runtime/cluster/job_event.hpp"
#include "runtime/cluster/messages.hpp"
#include "runtime/cluster/view/view.hpp"
#include "runtime/job/amend.hpp"

namespace troupe::control {

class checker;
class job_executor;

// The text of an operation's error for those that take errors as texts. Empty: no error.
template <class T>
std::string error_text(const expected<T>& r) {
  return r ? std::string() : r.error().text;
}

// --- requested by the cluster controller

// Result of the check of a submission, or the facts about a next plan.
// size: the facts about one plan, which the executor returns together
struct checked {
  std::vector<std::string> messages;  // not empty: the mistakes; nothing else is set
  std::string name, plan_hash;
  std::vector<std::string> nodes, head = {};  // of the plan; head: lines of job_head(), for clients
  std::uint64_t last_step = 0, steps_per_epoch = 0, batch = 0;
  bool deterministic = true;
  std::shared_ptr<const repl_about> about = {};
  std::vector<std::string> notes = {};  // for the log
  std::string alert = {};               // for those who follow the job, as an event; empty: none
  std::uint64_t room = 0;               // maximum bytes of a file that it starts from
  // With resume = "auto": the newest checkpoint of a job of this name and owner, already at
  // given_path().
  std::optional<given_file> found = {};
  bool continued = false;  // it starts from a file, at step `from`
  std::uint64_t from = 0;
  std::optional<std::uint64_t> max_failures = 0;  // node failures that it survives; none: any number
  std::int64_t replicas = 1;
  std::set<std::string> costly = {};  // nodes whose failure loses state that no other node has

  bool uses(const std::string& node) const { return std::find(nodes.begin(), nodes.end(), node) != nodes.end(); }
  bool survives_failures() const { return max_failures.value_or(1) > 0; }
};

// Checks a submission. Mistakes in it are not errors of the operation.
struct check_text {
  std::uint32_t job = 0;
  job_text what;
  given_file given = {};  // the file that the job starts from
  bool received = false;  // the file is complete on this node
  std::string owner = {};

  using executor = checker;
  using result = expected<checked>;
  result perform(auto& by) const { return by.check(*this); }
  void deliver(auto& to, const result& r) const {
    checked unreadable;
    if (!r) unreadable.messages = {r.error().in("cannot read this job").text};
    to.controller->on_checked(job, r ? *r : unreadable, to.now, *to.controller_out);
  }
};

// Writes a piece of an uploaded file.
struct keep_piece {
  std::uint32_t job = 0;
  std::uint64_t offset = 0;
  std::string bytes;
  given_file given = {};

  using executor = job_executor;
  using result = expected<void>;
  result perform(auto& by) const { return by.keep(*this); }
  void deliver(auto& to, const result& r) const { to.controller->on_piece_kept(job, r, to.now, *to.controller_out); }
};

// Removes the file that the job starts from.
struct drop_given {
  std::uint32_t job = 0;

  using executor = job_executor;
  void perform(auto& by) const { by.drop(job); }
};

// A plan has made its first step: its handover is not needed again.
struct drop_beginning {
  std::uint32_t job = 0;

  using executor = job_executor;
  void perform(auto& by) const { by.drop_beginning_of(job); }
};

// State after the checkpoint that a job retains when it restarts from that checkpoint.
struct going_back {
  std::vector<set_value> settings;  // by users
  bool paused = false;
  double seconds = 0;                 // since the job began
  bool live = true;                   // surviving state of the remaining nodes may be used
  std::set<std::string> silent = {};  // nodes that cannot report surviving state
};
struct plan_found {
  std::uint32_t job = 0;
  std::string error;  // not empty: why there is no plan; nothing else is set
  amendments changes;
  checked plan;
  mode_choice mode;  // of the plan
  std::uint32_t plan_generation = 0;
  std::uint64_t from = 0;  // in recovery: the step of the saved state
  bool live = false;       // in recovery: surviving state suffices; the coordinator role reports its step
};

// Plans a requested change of a running job.
struct check_move {
  std::uint32_t job = 0;
  amendments so_far;
  command wish;
  job_text what = {};  // set if the job's roles have never been made here
  std::uint32_t plan_generation = 0;
  std::optional<going_back> back = {};  // set in recovery: the running plan cannot hand over

  using executor = job_executor;
  using result = expected<plan_found>;
  result perform(auto& by) const { return by.amend(*this); }
  void deliver(auto& to, const result& r) const {
    auto f = r ? *r : plan_found();
    f.job = job;
    f.error = error_text(r);
    f.plan_generation = plan_generation;
    to.controller->on_plan_found(f, to.now, *to.controller_out);
  }
};

using controller_operations = operation_list<check_text, keep_piece, drop_given, drop_beginning, check_move>;

// --- requested by members

// Makes this node's part of a job's first plan, and spawns its roles.
struct make_roles {
  prepare what;

  using executor = job_executor;
  using result = expected<void>;
  result perform(auto& by) const { return by.make(what); }
  void deliver(auto& to, const result& r) const { to.node->on_made(what.job, error_text(r), *to.node_out); }
};

// Ends the job's roles. The result is the folder of the job's post-mortem; empty: none.
struct end_roles {
  std::uint32_t job = 0;
  end_job why = {};

  using executor = job_executor;
  using result = expected<std::string>;
  result perform(auto& by) const { return by.end(*this); }
  void deliver(auto& to, const result& r) const {
    if (!r) to.log(r.error().in("executor").text);
    const auto sent = to.roles_ended();
    to.node->on_gone(job, sent, to.now, *to.node_out, r ? *r : std::string());
  }
};

// Makes the job's next plan.
struct make_plan_order {
  revise what;

  using executor = job_executor;
  using result = expected<void>;
  result perform(auto& by) const { return by.revise(what); }
  void deliver(auto& to, const result& r) const {
    to.node->on_revised(what.what.job, what.plan_generation, error_text(r), *to.node_out);
  }
};

// Ends the roles of the running plan, and spawns those of the next one.
struct swap_roles {
  swap what;

  using executor = job_executor;
  using result = expected<void>;
  result perform(auto& by) const { return by.swap(what); }
  void deliver(auto& to, const result& r) const {
    to.node->on_swapped(what.job, what.plan_generation, error_text(r), *to.node_out);
  }
};

// The next plan of this generation will not be used.
struct forget_plan {
  std::uint32_t job = 0, plan_generation = 0;

  using executor = job_executor;
  void perform(auto& by) const { by.forget(job, plan_generation); }
};

using member_operations = operation_list<make_roles, end_roles, make_plan_order, swap_roles, forget_plan>;

// --- requested by their host

using kept_kind = store_effect::kind_of;
// A file of a job was written, or not.
struct stored {
  std::uint32_t job = 0;
  kept_kind what = kept_kind::checkpoint;
  // path: not empty with an error if another place has the file; of a checkpoint, the link to it.
  std::string path, sha256, error;
};

// Writes a checkpoint or the final weights.
struct write_state {
  std::uint32_t job = 0;
  store_effect what;
  bool left_out = false;  // nothing is written; the operation only keeps its place in the order

  using executor = job_executor;
  using result = expected<stored>;
  result perform(auto& by) const { return by.save(*this); }
  void deliver(auto& to, const result& r) const {
    const auto s = r ? *r : stored{job, what.what, {}, {}, r.error().text};
    to.saved(s);
    to.controller->on_stored(s, to.now, *to.controller_out);
  }
};

// Keeps the state that the ending plan hands over, for the next one.
struct keep_handover {
  std::uint32_t job = 0;
  store_effect what;

  using executor = job_executor;
  void perform(auto& by) const { by.hand_over(job, what); }
};

// Completes the run folder of a job (executor/job_runs.hpp).
struct end_run {
  std::uint32_t number = 0;
  job_event last;
  std::string weights;  // path; empty: none

  using executor = job_executor;
  void perform(auto& by) const { by.end_run(*this); }
};

// Removes the folders of old jobs (executor/job_folders.hpp).
struct remove_folders {
  using executor = job_executor;
  void perform(auto& by) const { by.remove_old_folders(); }
};

}  // namespace troupe::control
