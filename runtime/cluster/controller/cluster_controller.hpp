// Cluster controller: the state machine of the coordinator's daemon. It admits nodes, queues jobs,
// and starts, watches and ends one job at a time on all nodes of its plan. Pure: no clock, socket
// or file. Phases of a job, with deadlines:
//
//   checking    the checker reads and plans it; the client gets the mistakes (60 s)
//   receiving   the client uploads the file that the job starts from; then checking again
//   queued      jobs run one after the other
//   gathering   waits for nodes of the plan that have not joined (8 s, after a restart 30 s, from
//               the last one that has joined)
//   preparing   every node makes the same plan, spawns its roles, connects to the others (60 s from
//               the last one that is ready)
//   running     until the coordinator role reports done or error; user commands and node failures
//               may replace the plan (plan_changes.hpp, node_failures.hpp)
//   ending      every node ends its roles and reports the bytes that it sent (5 s); stores finish
//   over
//
// This class checks who may send what, and passes messages on to what they concern: the nodes
// (membership.hpp), the submissions (submissions.hpp), or one job (controlled_job.hpp). It begins
// the next job of the queue when one is over.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/cluster/controller/controlled_job.hpp"
#include "runtime/cluster/controller/journal.hpp"
#include "runtime/cluster/controller/orders.hpp"
#include "runtime/cluster/controller/submissions.hpp"
#include "runtime/cluster/controller/trust.hpp"

namespace troupe::control {

class cluster_controller {
 public:
  // `tag` makes job ids of two incarnations of this daemon differ, so messages of a former job are
  // recognised.
  cluster_controller(const cluster_spec& cluster, std::string self, std::uint16_t tag);
  cluster_controller(const cluster_controller&) = delete;
  cluster_controller& operator=(const cluster_controller&) = delete;

  void allow_injections() { may_inject_ = true; }

  void on(const std::string& from, const message& m, instant now, orders& out);
  void on_peer_up(const std::string& peer, std::uint64_t incarnation);  // before its messages
  void on_peer_down(const std::string& peer, const std::string& reason, instant now, orders& out);
  void on_checked(std::uint32_t job, checked c, instant now, orders& out);
  void on_piece_kept(std::uint32_t job, const expected<void>& kept, instant now, orders& out);
  void on_event(const job_event& e, instant now, orders& out);
  void on_plan_found(const plan_found& f, instant now, orders& out);
  // The coordinator role has handed over at this step.
  void on_handover(std::uint32_t job, std::uint64_t step, instant now, orders& out);
  // Returns true if two stores of this running job are in progress, so that a further checkpoint is
  // left out. False while the job stops.
  bool crowded(std::uint32_t job) const;
  void on_store_begun(std::uint32_t job);
  void on_stored(const stored& s, instant now, orders& out);
  void on_tick(instant now, orders& out);
  void restore(const journal_content& found, instant now, orders& out);  // called first: the jobs of the journal
  void take_submission(const std::string& owner, const std::string& from, const submit& m, instant now, orders& out);
  // Commands to a job; 0: the running one. With a person: checks that person's rights.
  expected<void> tell(std::uint32_t job, const command& c, instant now, orders& out);
  expected<void> tell(const person& who, std::uint32_t job, const command& c, instant now, orders& out);
  // Sends a fault to its node; `until`: when it ends, for people.
  expected<void> inject(const person& who, const injection& i, const std::string& until, instant now, orders& out);
  std::string owner_of(std::uint32_t job) const;  // empty: unknown job
  // Stops the running job with a checkpoint and refuses submissions.
  void drain(instant now, orders& out);
  bool drained() const;
  // Why a job that was stopped by draining has no checkpoint or weights in its folder. Empty if all
  // were stored.
  const std::string& lost_by_draining() const { return lost_by_draining_; }
  std::uint32_t active() const { return state_.active; }
  // Messages that were dropped because their senders may not send them.
  std::uint64_t unheard() const { return dropped_.count(); }

  void slow(const std::string& client, bool yes);   // yes: its queue is long, so it gets no `step` events
  std::string weights_of(std::uint32_t job) const;  // path; empty: none
  void fill(repl_view& v, instant now) const;

 private:
  // Messages about nodes and submissions. The others are about a job, which has functions for them.
  void take(const std::string& from, const join& m, instant now, orders& out);
  void take(const std::string& from, const submit& m, instant now, orders& out);
  void take(const std::string& from, const ended& m, instant now, orders& out);
  void take(const std::string& from, const report& m, instant now, orders& out);
  void take(const std::string& from, const leaving& m, instant now, orders& out);
  void take(const std::string& from, const follow& m, instant now, orders& out);
  void take(const std::string& from, const piece& m, instant now, orders& out);
  template <class M>
  void take(const std::string& from, const M& m, instant now, orders& out);

  // Calls `what` with a job_call about the job, if there is such a job; then settle().
  void with(controlled_job* j, instant now, orders& out, const std::function<void(job_call&)>& what);
  // Begins the next job if this one was the active one and is over.
  void settle(const controlled_job& j, instant now, orders& out);
  void begin_next(instant now, orders& out);
  controlled_job* active_job() { return state_.jobs.find(state_.active); }
  // By an id or a number; 0: the active one.
  controlled_job* job_of_command(std::uint32_t number);
  // controller_trust.cpp. An error if `from` may not send this message.
  expected<void> check_sender(const std::string& from, const message& m) const;

  const cluster_spec& cluster_;
  controller_state state_;
  submissions submissions_;
  unheeded dropped_;
  bool may_inject_ = false;
  std::string lost_by_draining_;
};

}  // namespace troupe::control
