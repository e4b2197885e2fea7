// The control plane's actors, as their shells see each other. Includes CAF: only for
// control_plane*.cpp.
#pragma once

#include <pthread.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <variant>

#include "actors/control/controller/cluster_controller.hpp"
#include "actors/control/controller/member.hpp"
#include "actors/control/executor/job_executor.hpp"
#include "actors/control/executor/memory_book.hpp"
#include "actors/control/host/injected.hpp"
#include "actors/control/host/plane.hpp"
#include "actors/shell/caf_compat.hpp"
#include "actors/shell/node_host.hpp"
#include "actors/shell/router.hpp"
#include "actors/supervision/liveness.hpp"

namespace troupe::control {

// What the control actor last knew, for readers on any thread.
class board {
 public:
  void put(repl_view v) {
    std::lock_guard guard(lock_);
    view_ = std::move(v);
  }
  repl_view get() const {
    std::lock_guard guard(lock_);
    return view_;
  }

 private:
  mutable std::mutex lock_;
  repl_view view_;
};

// What may wait, unread, for one of the control plane's peers: beyond it the connection ends at
// once. An operator's session that has declared buffers of the exchange may have its values there
// as well (exchange.cpp).
constexpr std::uint64_t max_queued_for_operator = std::uint64_t{8} << 20, max_queued_for_node = std::uint64_t{64} << 20;

// An actor's address that can be taken away: CAF 0.17 keeps a detached actor's thread until the
// last handle is gone, and others may still be posting when the daemon ends.
class mailbox {
 public:
  void open(caf::actor who) {
    std::unique_lock guard(lock_);
    who_ = std::move(who);
  }
  template <class Message>
  void post(Message&& m) const {
    std::shared_lock guard(lock_);
    compat::post(who_, std::forward<Message>(m));
  }
  void close() {
    caf::actor last;
    {
      std::unique_lock guard(lock_);
      last = std::exchange(who_, caf::actor{});
    }
    compat::ask_to_exit(last);
  }

 private:
  mutable std::shared_mutex lock_;
  caf::actor who_;
};

// How long a thread has run, for others to see.
class thread_clock {
 public:
  void mine() {  // on that thread
    clockid_t id{};
    if (::pthread_getcpuclockid(::pthread_self(), &id) == 0) id_ = id;
  }
  std::chrono::nanoseconds used() const {  // any thread; 0: not known, or it has ended
    timespec t{};
    if (id_ == none || ::clock_gettime(id_, &t) != 0) return {};
    return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
  }

 private:
  static constexpr clockid_t none = CLOCK_REALTIME;
  std::atomic<clockid_t> id_{none};
};

// What all of them share. Written before the first message; the transports are closed before it
// goes.
struct shared {
  control_plane_options options;
  std::string coordinator;  // name of the node whose daemon coordinates
  net::address coordinator_at;
  instant begun = std::chrono::steady_clock::now();
  board published;
  repl_events said;  // by jobs that this daemon coordinates
  router route;
  std::unique_ptr<net::transport> control_net, data_net;
  std::unique_ptr<node_host> host;  // waits for all actors when it goes, and they use all of this
  listening_ports ports;
  std::shared_ptr<device> dev;    // the first of the node's
  std::string numerics;           // of all of them
  std::unique_ptr<journal> book;  // of the coordinator's daemon
  mailbox control, keep, check, repl, exchange;
  thread_clock executor_clock;
  injected_faults faults;
  memory_book memory;

  bool coordinates() const { return coordinator == options.node; }
  bool is_node(const std::string& name) const {
    for (const auto& n : options.cluster.nodes)
      if (n.name == name) return true;
    return false;
  }
  void log(const std::string& line) const {
    if (options.log) options.log(line);
  }
  // Any thread (plane.cpp). Gives memory back to the system: what pools have not needed since the
  // last call; or all that they do not use now.
  void release_unused() const;
  void release_all_unused() const;
};

inline job_place job_place_of(const shared& s) {
  return {s.options.cluster, s.options.node, s.numerics, s.options.all, s.options.state};
}

// --- to the control actor
struct message_in {
  std::string peer;
  message what;
  person who{};  // of a client: its name and what it may do
  std::shared_ptr<const void>
      frame{};  // it came in: its credit goes back when this has been handled, so that nobody can fill the mailbox
};
struct link_change {
  bool data = false, up = false;
  std::string peer, reason;
  std::uint64_t incarnation = 0;
};
struct event_in {
  job_event what;
};
struct store_in {
  std::uint32_t job = 0;
  store_effect what;
  bool left_out = false;  // its place in the order of stores is kept, and nothing is written
};
struct check_done {
  std::uint32_t job = 0;
  checked what;
};
struct piece_done {
  std::uint32_t job = 0;
  std::string error;
};
struct make_done {
  std::uint32_t job = 0;
  std::string error;
};
struct end_done {
  std::uint32_t job = 0;
  std::string post_mortem = {};
};
struct revise_done {
  std::uint32_t job = 0, plan_generation = 0;
  std::string error;
};
struct swap_roles_done {
  std::uint32_t job = 0, plan_generation = 0;
  std::string error;
};
struct save_done {
  stored what;
};
struct submit_in {  // from the REPL actor: answer `id` of `peer` when it is known
  std::string peer, owner;
  std::uint64_t id = 0;
  bool json = false;
  job_text what;
};
struct tell_in {
  std::uint32_t job = 0;
  command what;
  person who;
};
struct listening_in {};  // the ports are known: join
struct drain_in {};
struct tick_in {};
struct probe_back {
  watched_actor who = watched_actor::repl;
};
struct control_note {
  std::variant<message_in, link_change, event_in, store_in, check_done, piece_done, make_done, end_done, revise_done,
               swap_roles_done, plan_found, save_done, submit_in, tell_in, listening_in, drain_in, tick_in, probe_back>
      what;
};

// --- to whom the watchdog watches: answered by probe_back
struct probe {};

// --- to the keeper
struct executor_note {
  std::variant<keep_piece, drop_given, drop_beginning, make_roles, end_roles, check_move, make_plan_order, swap_roles, forget_plan,
               store_in, probe>
      what;
};

// --- to the checker
struct checker_note {
  check_text what;
};

// --- to the REPL actor
struct ask_in {
  std::string peer;
  ask what;
  person who;                           // whose line it is
  std::shared_ptr<const void> frame{};  // as of message_in
};
struct answer_in {
  answer what;
};
struct coordinator_gone {};

// --- to the actor of the exchange: a frame of a process with its own training loop, or its end
struct exchange_in {
  std::string peer;
  net::frame what;
  bool gone = false;
  std::string reason;
};

// Of this life of the daemon, in the ids of its jobs.
inline std::uint16_t tag_of(const shared& s) { return static_cast<std::uint16_t>(s.options.incarnation % 65521); }

caf::actor spawn_control(caf::actor_system& system, shared& s);
caf::actor spawn_executor(caf::actor_system& system, shared& s);
caf::actor spawn_checker(caf::actor_system& system, shared& s);
caf::actor spawn_repl(caf::actor_system& system, shared& s);
caf::actor spawn_exchange(caf::actor_system& system, shared& s);

}  // namespace troupe::control

TROUPE_LOCAL_MESSAGE(troupe::control::control_note)
TROUPE_LOCAL_MESSAGE(troupe::control::executor_note)
TROUPE_LOCAL_MESSAGE(troupe::control::checker_note)
TROUPE_LOCAL_MESSAGE(troupe::control::probe)
TROUPE_LOCAL_MESSAGE(troupe::control::ask_in)
TROUPE_LOCAL_MESSAGE(troupe::control::answer_in)
TROUPE_LOCAL_MESSAGE(troupe::control::coordinator_gone)
TROUPE_LOCAL_MESSAGE(troupe::control::exchange_in)
