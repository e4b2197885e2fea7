// The coordinator's daemon, as a state machine: who is a member, which jobs wait, and how one job
// at a time is started, watched and ended on all nodes of its plan. Pure: no clock, socket or file.
//
//   a job   checking    a keeper reads and plans it; mistakes go back to the client
//           receiving   the client's file that it is to begin with comes piece by piece; then it is checked again, with that (controller_given.cpp)
//           queued      jobs run one after the other
//           gathering   waiting for nodes of the plan that have not joined (8 s)
//           preparing   every node makes the same plan, spawns its roles, connects to the others (60 s)
//           running     until the coordinator role says done or error; meanwhile its plan may be followed by another, where people
//                       move layers (controller_moves.cpp) or nodes are lost (controller_failures.cpp)
//           ending      every node ends its roles and tells what it has sent (5 s); stores finish
//           over
//
// Invariants: a job gets exactly one `done`, `preempted` or `error` event, the last; it goes out
// when its weights are hashed and written. Events wait behind a store that was begun before them,
// so that a checkpoint is announced when it is on disk. Every wait has a deadline.
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
#include "actors/control/controller/trust.hpp"
#include "actors/control/messages.hpp"
#include "actors/supervision/failure_book.hpp"
#include "actors/supervision/task_watch.hpp"
#include "actors/view/view.hpp"
#include "runtime/job/amend.hpp"
#include "runtime/node/net/hello.hpp"

namespace troupe::control {

using instant = std::chrono::steady_clock::time_point;

// What the job executor found out about a submission.
struct checked {
  std::vector<std::string> messages;  // not empty: wrong, nothing else is set
  std::string name, plan_hash;
  std::vector<std::string> nodes;  // that the plan uses
  std::uint64_t last_step = 0;
  bool deterministic = true;
  std::shared_ptr<const repl_about> about = {};
  // What the coordinator has chosen for all nodes ([job] convolution = "measured"): from here on
  // part of the job's text.
  std::vector<std::string> overrides = {};
  std::vector<std::string> notes = {};  // for the log
  std::uint64_t room = 0;               // the most bytes that a file may have for it to begin with
  // What it begins with by itself ([checkpoint] resume = "auto"): the newest that is kept of a job
  // of its name, which lies where its file would.
  std::optional<given_file> found = {};
  // It begins with a file, at this step.
  bool continued = false;
  std::uint64_t from = 0;
  std::optional<std::uint64_t> max_failures = 0;  // losses that it survives; none: any number
  std::int64_t replicas = 1;
  std::set<std::string> costly = {};  // nodes without which the others have not all that the job goes on from
};
struct stored {
  std::uint32_t job = 0;
  std::string what, path, sha256, error;
};

// What the cluster controller wants done, in order.
struct to_peer {
  std::string peer;
  message what;
};
// A piece of the file that a job begins with, to the keeper; answered by on_piece_kept.
struct keep_piece {
  std::uint32_t job = 0;
  std::uint64_t offset = 0;
  std::string bytes;
  given_file given = {};
};
struct drop_given {
  std::uint32_t job = 0;
};
struct drop_beginning {  // a plan has made its first step: nobody goes back to what it began with
  std::uint32_t job = 0;
};
// What a job that goes back takes with it of the time after the checkpoint.
struct going_back {
  std::vector<set_value> settings;  // all that people have set
  bool paused = false;
  double seconds = 0;                 // since it began
  bool live = true;                   // it may go on from what living nodes have
  std::set<std::string> silent = {};  // nodes that cannot say what they have
};
struct check_text {
  std::uint32_t job = 0;
  job_text what;
  given_file given = {};  // to begin with
  bool received = false;  // it is here
};
// A wish about a running job's placement, to the keeper; and the plan it makes of it.
struct check_move {
  std::uint32_t job = 0;
  amendments so_far;
  command wish;
  job_text what = {};  // of one whose roles have never been made
  std::uint32_t plan_generation = 0;
  std::optional<going_back> back = {};  // the plan that runs cannot hand over: begin with what was kept last
};
struct plan_found {
  std::uint32_t job = 0;
  std::string error;  // not empty: nothing else is set
  amendments changes;
  checked plan;
  std::string mode;  // that the plan is made for, as mode_text() says it
  std::uint32_t plan_generation = 0;
  std::uint64_t from = 0;  // of one that goes back: the step
  bool live = false;  // of one that lost nodes: those that live have all that it needs, the coordinator role says at which step
};
struct begin_job {
  std::uint32_t job = 0;
};
struct tell_job {
  std::uint32_t job = 0;
  command what;
};
struct log_line {
  std::string text;
};
// To be on disk before what is ordered after it.
struct journal_line {
  std::string line;
};
struct followed_event {  // an event of a job, as those who follow it are told
  job_event what;
};
using order = std::variant<to_peer, check_text, keep_piece, drop_given, drop_beginning, check_move, begin_job, tell_job,
                           followed_event, log_line, journal_line>;
using orders = std::vector<order>;

class cluster_controller {
 public:
  // `tag` makes job ids of two lives of this daemon differ: nothing of an old job can be taken for
  // a new one's.
  cluster_controller(const cluster_spec& cluster, std::string self, std::uint16_t tag);

  void allow_injections() { may_inject_ = true; }

  void on(const std::string& from, const message& m, instant now, orders& out);
  void on_peer_up(const std::string& peer, std::uint64_t incarnation);  // before what it says
  void on_peer_down(const std::string& peer, const std::string& reason, instant now, orders& out);
  void on_checked(std::uint32_t job, checked c, instant now, orders& out);
  void on_piece_kept(std::uint32_t job, const std::string& error, instant now, orders& out);
  void on_event(const job_event& e, instant now, orders& out);
  void on_plan_found(const plan_found& f, instant now, orders& out);
  // The coordinator role has ended its plan at this step.
  void on_handover(std::uint32_t job, std::uint64_t step, instant now, orders& out);
  // One more checkpoint of this job would wait for two others to be written; those of a job that
  // stops are always taken.
  bool crowded(std::uint32_t job) const;
  void on_store_begun(std::uint32_t job);
  void on_stored(const stored& s, instant now, orders& out);
  void on_tick(instant now, orders& out);
  // First of all: what an earlier life of this daemon had taken.
  void restore(const journal_content& found, instant now, orders& out);
  void take_submission(const std::string& owner, const std::string& from, const submit& m, instant now, orders& out);
  // Job 0: the one that runs. An error, or nothing. Of a person: whoever may not say it has that as
  // the error.
  std::string tell(std::uint32_t job, const command& c, instant now, orders& out);
  std::string tell(const person& who, std::uint32_t job, const command& c, instant now, orders& out);
  std::string owner_of(std::uint32_t job) const;  // empty: there is no such job
  // Stops what runs, refuses what waits and what comes.
  void drain(instant now, orders& out);
  bool drained() const { return draining_ && active_ == 0 && pending_stores() == 0; }
  // What draining has lost: a job that was stopped for it and whose checkpoint or weights are not
  // where they belong. Empty: nothing.
  const std::string& lost_by_draining() const { return lost_by_draining_; }
  std::uint32_t active() const { return active_; }
  // Messages that their senders had no right to.
  std::uint64_t unheard() const { return trust_.dropped.count(); }

  void slow(const std::string& client, bool yes);   // its queue is long: no steps for now
  std::string weights_of(std::uint32_t job) const;  // path, or empty
  void fill(repl_view& v, instant now) const;       // controller_view.cpp

 private:
  enum class phase : std::uint8_t { checking, receiving, queued, gathering, preparing, running, ending, over };
  struct member {
    bool up = false, leaving = false;
    bool hung = false;  // a task there does not end: no part of a job is given to it until it joins anew
    bool usable() const { return up && !leaving && !hung; }
    join said;
    report last;
    instant since{}, reported{};
    std::uint64_t lives = 0, node_failures = 0;
  };
  // A plan that is to follow the one that runs.
  struct successor {
    static constexpr std::chrono::seconds made_timeout{60};  // on every node of it
    static constexpr std::chrono::seconds said_timeout{10};  // what is left
    enum class phase : std::uint8_t { checking, preparing, draining, swapping } at = phase::checking;
    std::uint32_t plan_generation = 0;  // names it
    command wish;
    amendments changes;
    checked plan;
    std::string mode;
    std::set<std::string> waiting;  // nodes that have to answer yet
    instant deadline{}, was_suspended{};
    std::uint64_t step = 0;
    std::vector<command> held;      // told while nobody could hear them
    std::string lost;               // why it is needed: nodes are gone. Empty: people want it
    std::set<std::string> gone;     // of those that the plan before used
    std::set<std::string> without;  // the same, and who is there but leaves, or cannot be reached by others
    bool broken = false;            // lost another one while nodes swapped: it is never begun
    bool live = false;              // goes on from what the others have
    std::set<std::string> silent;   // of `without`: who cannot say what it has
    bool goes_back() const { return !lost.empty(); }
  };
  // This daemon stood still, and nodes have given it up: they have the job's roles still, and are
  // waited for.
  struct rejoining {
    static constexpr std::chrono::seconds within{5};
    static constexpr std::chrono::milliseconds all_heard{500};  // the ends of all connections that have ended meanwhile
    std::set<std::string> waiting;
    std::string why;
    instant since{};
    std::vector<command> held = {};  // words meanwhile
  };
  struct job {
    std::uint32_t id = 0;
    job_text what;
    given_file given;
    std::uint64_t received = 0;  // of its bytes
    checked plan;
    phase at = phase::checking;
    instant deadline{};
    std::string submitter;  // until it is answered
    std::uint64_t ask = 0;
    bool submitter_follows = false, paused = false, stopping = false, restored = false;
    bool begins = false;                       // its plan is not its first, and has made no step yet
    std::set<std::string> followers, waiting;  // waiting: nodes that have to answer yet
    std::set<std::string> notified;            // clients that have had the history
    std::uint32_t stores = 0;
    std::string preempted;  // why it is stopped though nobody wants it; empty: somebody does
    std::string kept;       // its newest checkpoint
    std::optional<std::uint64_t> kept_step;
    instant kept_at{};
    std::vector<std::string> post_mortems;  // "NODE:FOLDER", of a job that has failed
    std::string unsaved;                    // why the checkpoint that it stopped with is not where it belongs
    bool stores_late = false;               // some were not waited for
    std::deque<job_event> held;             // behind a store
    std::deque<stored> results;             // not yet announced
    std::deque<job_event> history, steps;
    std::optional<job_event> last;  // done, preempted or error
    std::uint64_t tcp_bytes = 0;
    std::uint64_t progress = 0;
    instant progress_at{};
    repl_job view;
    std::string weights;
    std::uint32_t generations = 0;      // plans after the first, those included of which nothing came
    amendments changes;                 // that it was made with
    amendments noted;                   // of them, what people have said, as the journal has it
    std::uint32_t plan_generation = 0;  // of the plan that runs
    std::optional<successor> next;
    std::optional<rejoining> back;
    std::set<std::string> without_roles;  // nodes of the plan that runs whose daemons have been lost since it began
    failure_book node_failures;
    going_back since;                          // but for `seconds`
    std::optional<std::uint64_t> role_failed;  // at this step, when all roles were begun anew
    instant begun{};
    std::uint64_t reached = 0;  // the step before this daemon was restarted; 0 after the first new step
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

  job* find(std::uint32_t id);
  const job* find(std::uint32_t id) const;
  const job* find_for_command(std::uint32_t number) const;  // by its id, or by the number that people know; 0: the one that runs
  void next(instant now, orders& out);
  void gather(job& j, instant now, orders& out);
  void runs(job& j, instant now, orders& out);
  void fail(job& j, const std::string& where, const std::string& message, instant now, orders& out);
  void end(job& j, instant now, orders& out);
  void finish(job& j, instant now, orders& out);
  void say(job& j, job_event e, orders& out);
  void release_held(job& j, instant now, orders& out);
  void take_event(job& j, job_event e, instant now, orders& out);
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
  // controller_inject.cpp
  std::string inject(const person& who, const command& c, orders& out);
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
  bool restart_role(job& j, const std::string& where, const std::string& text, instant now, orders& out);
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
    std::map<std::string, std::uint64_t> greeted;  // nodes that are connected, with the incarnation that their connections have
  } trust_;
};

message to_message(const job_event& e);
job_event to_event(const said& m);

}  // namespace troupe::control
