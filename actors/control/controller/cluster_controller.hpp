// Cluster controller: the state machine of the coordinator's daemon. It admits nodes, queues jobs,
// and starts, watches and ends one job at a time on all nodes of its plan. Pure: no clock, socket
// or file. Phases of a job, with deadlines:
//
//   checking    the checker reads and plans it; the client gets the mistakes (60 s)
//   receiving   the client uploads the file that the job starts from; then checking again
//   queued      jobs run one after the other
//   gathering   waits for nodes of the plan that have not joined (8 s; after a restart 30 s)
//   preparing   every node makes the same plan, spawns its roles, connects to the others (60 s)
//   running     until the coordinator role reports done or error; user commands and node failures
//               may replace the plan (controller_moves.cpp, controller_failures.cpp)
//   ending      every node ends its roles and reports the bytes that it sent (5 s); stores finish
//   over
//
// Invariants: a job gets exactly one `done`, `preempted` or `error` event, its last; it is sent
// when the weights are hashed and written. Events wait for stores that were begun before them, so a
// checkpoint is announced when it is on disk. Every wait has a deadline.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/control/admission.hpp"
#include "actors/control/client/client.hpp"
#include "actors/control/controller/journal.hpp"
#include "actors/control/controller/orders.hpp"
#include "actors/control/controller/trust.hpp"
#include "actors/supervision/failure_book.hpp"
#include "actors/supervision/task_watch.hpp"
#include "actors/view/view.hpp"
#include "runtime/job/amend.hpp"
#include "runtime/node/net/hello.hpp"

namespace troupe::control {

class cluster_controller {
 public:
  // `tag` makes job ids of two incarnations of this daemon differ, so messages of a former job are
  // recognised.
  cluster_controller(const cluster_spec& cluster, std::string self, std::uint16_t tag);
  void allow_injections() { may_inject_ = true; }

  void on(const std::string& from, const message& m, instant now, orders& out);
  void on_peer_up(const std::string& peer, std::uint64_t incarnation);  // before its messages
  void on_peer_down(const std::string& peer, const std::string& reason, instant now, orders& out);
  void on_checked(std::uint32_t job, checked c, instant now, orders& out);
  void on_piece_kept(std::uint32_t job, const std::string& error, instant now, orders& out);
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
  // Commands to a job; 0: the running one. Returns an error or an empty string. With a person:
  // checks that person's rights.
  std::string tell(std::uint32_t job, const command& c, instant now, orders& out);
  std::string tell(const person& who, std::uint32_t job, const command& c, instant now, orders& out);
  // Sends a fault to its node; `until`: when it ends, for people. Returns an error or empty.
  std::string inject(const person& who, const injection& i, const std::string& until, orders& out);
  std::string owner_of(std::uint32_t job) const;  // empty: unknown job
  // Stops the running job with a checkpoint and refuses submissions.
  void drain(instant now, orders& out);
  bool drained() const { return draining_ && active_ == 0 && pending_stores() == 0; }
  // Why a job that was stopped by draining has no checkpoint or weights in its folder. Empty if all
  // were stored.
  const std::string& lost_by_draining() const { return lost_by_draining_; }
  std::uint32_t active() const { return active_; }
  // Messages that were dropped because their senders may not send them.
  std::uint64_t unheard() const { return trust_.dropped.count(); }

  void slow(const std::string& client, bool yes);   // yes: its queue is long, so it gets no `step` events
  std::string weights_of(std::uint32_t job) const;  // path; empty: none
  void fill(repl_view& v, instant now) const;       // controller_view.cpp

 private:
  enum class phase : std::uint8_t { checking, receiving, queued, gathering, preparing, running, ending, over };
  struct member {
    bool up = false, leaving = false;
    bool hung = false;  // a task there does not end; no job uses the node until it ends or the node joins anew
    bool usable() const { return up && !leaving && !hung; }
    join said;
    report last;
    instant since{}, reported{};
    std::uint64_t lives = 0, node_failures = 0;
  };
  // The next plan of the running job, while it is prepared.
  struct successor {
    static constexpr std::chrono::seconds made_timeout{60};  // by the job executor, and on every node
    static constexpr std::chrono::seconds said_timeout{10};  // for surviving state
    enum class phase : std::uint8_t { checking, preparing, draining, swapping } at = phase::checking;
    std::uint32_t plan_generation = 0;  // of this plan
    command wish;
    amendments changes;
    checked plan;
    mode_choice mode;
    std::set<std::string> waiting;  // nodes that have not answered yet
    instant deadline{}, was_suspended{};
    std::uint64_t step = 0;
    std::vector<command> held;      // commands until this plan runs
    std::string lost;               // the failure that it recovers from; empty: a user requested it
    std::set<std::string> gone;     // failed nodes of the running plan
    std::set<std::string> without;  // `gone`, and nodes of it that leave or are unreachable for others
    bool broken = false;            // another node failed during the swap: this plan never begins
    bool live = false;              // continues from surviving state
    std::set<std::string> silent;   // nodes that cannot report surviving state
    bool goes_back() const { return !lost.empty(); }
  };
  // This daemon was suspended and its peers closed their connections. They retain the job's roles
  // for a while and are expected to join again.
  struct rejoining {
    static constexpr std::chrono::seconds within{5};
    static constexpr std::chrono::milliseconds all_heard{500};  // until the ends of all connections have been reported
    std::set<std::string> waiting;
    std::string why;
    instant since{};
    std::vector<command> held = {};  // commands meanwhile
  };
  struct job {
    std::uint32_t id = 0;
    job_text what;
    given_file given;            // the file that it starts from
    std::uint64_t received = 0;  // bytes of `given`
    checked plan;
    phase at = phase::checking;
    instant deadline{};
    std::string submitter;  // client that waits for `submitted`; empty: answered
    std::uint64_t ask = 0;
    bool submitter_follows = false, paused = false, stopping = false, restored = false;
    bool begins = false;                       // the running plan is not the first and has made no step yet
    std::set<std::string> followers, waiting;  // clients; nodes that have not answered yet
    std::set<std::string> notified;            // clients that have received the history
    std::uint32_t stores = 0;                  // writes in progress
    std::string preempted;  // why the job stops without a stop command, e.g. "n1 shuts down"; empty: not preempted
    std::string kept;       // path of the newest checkpoint
    std::optional<std::uint64_t> kept_step;
    instant kept_at{};
    std::vector<std::string> post_mortems;  // "NODE:FOLDER", after a failure
    std::string unsaved;                    // why its last checkpoint is not in its folder; empty: it is
    bool stores_late = false;               // writes exceeded their deadline
    std::deque<job_event> held;             // events that wait for a store
    std::deque<stored> results;             // stores whose event is not sent yet
    std::deque<job_event> history, steps;   // events sent: all but `step`; the last `step`s
    std::optional<job_event> last;          // done, preempted or error
    std::uint64_t tcp_bytes = 0;            // that nodes have sent for it
    std::uint64_t progress = 0;             // messages that its roles have handled
    instant progress_at{};
    repl_job view;
    std::string weights;                // path of the final ones; empty: none
    std::uint32_t generations = 0;      // plans after the first, including those that never ran
    amendments changes;                 // of the running plan
    amendments noted;                   // changes by users, as in the journal
    std::uint32_t plan_generation = 0;  // of the running plan; ~0: its roles never began
    std::optional<successor> next;
    std::optional<rejoining> back;
    std::set<std::string> without_roles;  // nodes of the running plan that have failed since it began
    failure_book node_failures;
    going_back since;                          // settings and pause by users; other fields unused
    std::optional<std::uint64_t> role_failed;  // step of the last restart of all roles after a role failed
    instant begun{};
    std::uint64_t reached = 0;  // step before this daemon restarted; 0 after the first new step
    task_watch tasks;
  };

  void take(const std::string& from, const join& m, instant now, orders& out);
  void take(const std::string& from, const submit& m, instant now, orders& out) {
    take_submission(net::operator_of(from), from, m, now, out);
  }
  void take(const std::string& from, const prepared& m, instant now, orders& out);
  void take(const std::string& from, const trouble& m, instant now, orders& out);
  void take(const std::string& from, const ended& m, instant now, orders& out);
  void take(const std::string& from, const report& m, instant now, orders& out);
  void take(const std::string& from, const leaving& m, instant now, orders& out);
  void take(const std::string& from, const follow& m, instant now, orders& out);
  void take(const std::string& from, const revised& m, instant now, orders& out);
  void take(const std::string& from, const swapped& m, instant now, orders& out);
  void take(const std::string& from, const piece& m, instant now, orders& out);
  template <class M>
  void take(const std::string&, const M&, instant, orders&) {}

  std::string kill(const person& who, std::uint32_t number, instant now, orders& out);
  job* find(std::uint32_t id);
  const job* find(std::uint32_t id) const;
  const job* find_for_command(std::uint32_t number) const;  // an id or a number; 0: the running job
  void next(instant now, orders& out);
  void gather(job& j, instant now, orders& out);
  void runs(job& j, instant now, orders& out);
  void fail(job& j, const std::string& where, const std::string& message, instant now, orders& out);
  void refuse_command(job& j, const std::string& why, instant now, orders& out);
  void end(job& j, instant now, orders& out);
  void finish(job& j, instant now, orders& out);
  void say(job& j, job_event e, orders& out);
  void release_held(job& j, instant now, orders& out);
  void take_event(job& j, job_event e, instant now, orders& out);
  void note_checkpoint(job& j, event_effect& e, instant now);
  void watch_progress(job& j, instant now, orders& out);
  bool watch_tasks(job& j, instant now, orders& out);
  // controller_given.cpp
  std::string why_not_given(const given_file& g) const;
  void receive(job& j, instant now, orders& out);
  void refuse_given(job& j, const std::string& why, orders& out);
  void refuse_late_pieces(instant now, orders& out);
  // controller_submissions.cpp
  std::string why_not_taken(const submit& m) const;
  void answer_submitter(job& j, std::uint32_t number, std::vector<std::string> messages, orders& out);
  void describe(const job& j, submitted& s) const;
  void ask_for_check(job& j, instant now, orders& out);
  void next_check(orders& out);
  void take_checked(std::uint32_t id, checked c, instant now, orders& out);
  void refuse_submission(job& j, std::vector<std::string> messages, instant now, orders& out);
  void refuse_late_checks(instant now, orders& out);
  void refuse_submissions(instant now, orders& out);
  void forget_submissions_of(const std::string& client, instant now, orders& out);
  // controller_trust.cpp
  std::string no_right(const std::string& from, const message& m) const;
  bool has_part(const job& j, const std::string& node) const;
  // controller_moves.cpp
  void wish(job& j, const command& c, instant now, orders& out);
  std::string prepare_successor(job& j, instant now, orders& out);
  void refuse(job& j, const std::string& why, instant now, orders& out);
  void drop_successor(job& j, orders& out);
  void swap_done(job& j, instant now, orders& out);
  bool lost_to_successor(job& j, const std::string& peer, const std::string& why, instant now, orders& out);
  void watch_successor(job& j, instant now, orders& out);
  void begin_swap(job& j, std::uint64_t step, instant now, orders& out);
  // controller_view.cpp
  std::uint64_t steps_at_risk(const job& j) const;
  std::optional<std::uint64_t> steps_at_risk(const job& j, const std::string& node) const;
  repl_node entry_of(const std::string& name, instant now) const;
  repl_job entry_of(const job& j, instant now) const;
  // controller_journal.cpp
  void note_set(const job& j, orders& out) const;
  void note_words(job& j, orders& out) const;
  bool begins_changed(const job& j) const;
  void note_over(const job& j, orders& out) const;
  void restore(const finished_job& f);
  // controller_failures.cpp
  void lose(job& j, const std::string& node, const std::string& why, instant now, orders& out);
  bool restart_role(job& j, const std::string& where, const role_failure& what, const std::string& text, instant now, orders& out);
  void begin_recovery(job& j, const std::string& why, bool live, std::vector<command> held, instant now, orders& out);
  void ask_for_surviving_state(job& j, instant now, orders& out);
  void nothing_is_left(job& j, const std::string& why, instant now, orders& out);
  void went_back(job& j, const successor& n, instant now, orders& out);
  void take_back(job& j, instant now, orders& out);
  bool was_suspended(instant now) const;
  bool comes_back(job& j, const std::string& peer, instant now);
  bool rejoins(job* j, const std::string& from, const join& m, orders& out);
  void watch_rejoining(job& j, instant now, orders& out);
  void refused(job& j, const command& wish, instant now, orders& out);
  void watch_suspects(job& j, instant now, orders& out);
  bool unreachable(job& j, const std::string& peer, const std::string& by, const std::string& why, instant now, orders& out);
  void lose_hung(job& j, const std::string& node, const std::string& why, instant now, orders& out);
  void came_to_itself(const std::string& node, instant now, orders& out);
  bool take_leave(job& j, const std::string& node, instant now, orders& out);
  void tell_or_hold(job& j, command c, orders& out);
  std::uint32_t pending_stores() const;
  void note_lost(const job& j);
  void preempt(job& j, const std::string& why, orders& out);
  void forget_old();

  const cluster_spec& cluster_;
  const std::string self_;
  job_numbers numbers_;
  std::uint32_t active_ = 0;
  bool draining_ = false, may_inject_ = false;
  struct {
    instant ticked{}, woke{};
    std::chrono::steady_clock::duration slept{};
  } clock_;
  std::string lost_by_draining_;
  std::map<std::string, member> members_;
  std::map<std::uint32_t, job> jobs_;
  std::deque<std::uint32_t> queue_;
  std::set<std::string> slow_;
  struct {
    std::deque<std::uint32_t> waiting;
    std::uint32_t under_way = 0;
  } checks_;
  struct {
    unheeded dropped;
    std::map<std::string, std::uint64_t> greeted;  // connected nodes, with the incarnation of the connection
  } trust_;
};

}  // namespace troupe::control
