// The control plane's actors: their messages and shared state. Includes CAF: only for the files of
// this folder.
#pragma once

#include <pthread.h>
#include <time.h>

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <variant>

#include "actors/control/host/injected.hpp"
#include "actors/control/host/link_meter.hpp"
#include "actors/control/host/operation_actor.hpp"
#include "actors/control/host/plane.hpp"
#include "actors/metrics/event_totals.hpp"
#include "actors/post_mortem/node_post_mortems.hpp"
#include "actors/shell/caf_compat.hpp"
#include "actors/shell/node_host.hpp"
#include "actors/shell/router.hpp"
#include "actors/supervision/gpu_watch.hpp"
#include "actors/supervision/liveness.hpp"
#include "runtime/base/result.hpp"
#include "runtime/cluster/controller/cluster_controller.hpp"
#include "runtime/cluster/controller/member.hpp"
#include "runtime/node/executor/job_executor.hpp"
#include "runtime/node/executor/job_runs.hpp"
#include "runtime/node/executor/memory_book.hpp"

namespace troupe::control {

// Measurements that take seconds, each on a thread of its own, one at a time. Clients ask again
// until the result is there.
class measurements {
 public:
  // The result of `work`, which the first call with this ticket begins; nullopt: not ready. A
  // result is returned once. An error if too many results are awaited, or after close().
  expected<std::optional<std::string>> result(const std::string& ticket, std::function<std::string()> work);
  // Waits for the measurements that have begun.
  void close();

 private:
  struct entry {
    std::future<std::string> result;
    std::chrono::steady_clock::time_point asked{};
  };
  void drop_forgotten();

  std::mutex one_at_a_time_;
  std::mutex lock_;  // of the following
  bool closed_ = false;
  std::map<std::string, entry> awaited_;  // last member: its destructor waits for the threads, which use the others
};

// The last published view of the control actor, for readers on any thread.
class board {
 public:
  void put(repl_view v) {
    std::lock_guard guard(lock_);
    view_ = std::move(v);
  }
  repl_view get() const {
    std::lock_guard guard(lock_);
    read_ = true;
    return view_;
  }
  // Returns true if the view was read since the last call.
  bool read() {
    std::lock_guard guard(lock_);
    return std::exchange(read_, false);
  }

 private:
  mutable std::mutex lock_;
  repl_view view_;
  mutable bool read_ = false;
};

// Maximum unread bytes that are queued for one peer of the control plane; beyond it the connection
// is closed at once. A session with declared buffers of the exchange has additional room for their
// values (exchange.cpp).
constexpr std::uint64_t max_queued_for_operator = std::uint64_t{8} << 20, max_queued_for_node = std::uint64_t{64} << 20;

// An actor's address that can be closed. CAF 0.17 keeps a detached actor's thread until the last
// handle is gone, and other threads may still post while the daemon ends.
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

// CPU time of a thread, readable by other threads.
class thread_clock {
 public:
  void mine() {  // called on that thread
    clockid_t id{};
    if (::pthread_getcpuclockid(::pthread_self(), &id) == 0) id_ = id;
  }
  std::chrono::nanoseconds used() const {  // any thread; 0: unknown, or the thread has ended
    timespec t{};
    if (id_ == none || ::clock_gettime(id_, &t) != 0) return {};
    return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
  }

 private:
  static constexpr clockid_t none = CLOCK_REALTIME;
  std::atomic<clockid_t> id_{none};
};

// State that all actors share. Written before the first message; the transports are closed before
// it is destroyed.
// size: the parts of a daemon, destroyed in this order
struct shared {
  control_plane_options options;
  std::string coordinator;  // name of the coordinator's node
  net::address coordinator_at;
  instant begun = std::chrono::steady_clock::now();
  board published;
  repl_events said;     // events of jobs that this daemon coordinates
  event_totals totals;  // likewise, for /metrics
  router route;
  std::unique_ptr<net::transport> control_net, data_net;
  std::unique_ptr<node_host> host;  // its destructor waits for all actors, which use the members above
  listening_ports ports;
  std::shared_ptr<device> dev;     // the node's first
  std::string numerics;            // of all devices
  std::unique_ptr<journal> book;   // on the coordinator's daemon only
  std::unique_ptr<job_runs> runs;  // likewise
  std::unique_ptr<node_post_mortems> failures;
  mailbox control, keep, check, repl, exchange;
  std::unique_ptr<gpu_watch> gpus;  // that the node's `devices` name
  thread_clock executor_clock;
  std::array<std::atomic<bool>, watched_actors> answered{};  // probes of `pulse` (actors.cpp), by their actors
  injected_faults faults;
  memory_book memory;
  std::shared_ptr<opened_data> opened = std::make_shared<opened_data>();  // data of jobs
  link_meter meter;
  control::measurements measurements;  // its threads use the others

  void answer_probe(watched_actor who) { answered[static_cast<std::size_t>(who)] = true; }
  bool coordinates() const { return coordinator == options.node; }
  bool is_node(const std::string& name) const {
    for (const auto& n : options.cluster.nodes)
      if (n.name == name) return true;
    return false;
  }
  void log(const std::string& line) const {
    if (options.log) options.log(line);
  }
  // Any thread (plane.cpp). Returns memory to the system: what pools have not needed since the last
  // call, or all that is unused now.
  void release_unused() const;
  void release_all_unused() const;
};

inline job_place job_place_of(const shared& s) {
  return {s.options.cluster, s.options.node, s.numerics, s.options.all, s.options.state, s.opened};
}

// --- to the control actor
struct message_in {
  std::string peer;
  message what;
  person who{};                         // of a client: its name and role
  std::shared_ptr<const void> frame{};  // holds the frame's credit until the message is handled, which bounds the mailbox
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
};
struct submit_in {  // from the REPL actor: a submission by line `id` of `peer`, answered when it is checked
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
struct inject_in {
  injection what;
  person who;
};
struct listening_in {};  // the ports are known: the node can join
struct drain_in {};
struct tick_in {};
struct control_note {
  // delivery: the result of an operation
  std::variant<message_in, link_change, event_in, store_in, delivery, submit_in, tell_in, inject_in, listening_in, drain_in,
               tick_in>
      what;
};

// --- to the REPL actor
struct ask_in {
  std::string peer;
  ask what;
  person who;                           // the person that entered the line
  std::shared_ptr<const void> frame{};  // as in message_in
};
struct answer_in {
  answer what;
};
struct look_in {
  std::string peer;
  look what;
  person who;
  std::shared_ptr<const void> frame{};  // as in message_in
};
struct coordinator_gone {};

// --- to the actor of the exchange: a frame of a client with an external training loop, or the end
// of its connection
struct exchange_in {
  std::string peer;
  net::frame what;
  bool gone = false;
  std::string reason;
};

// The tag of this incarnation of the daemon in job ids.
inline std::uint16_t tag_of(const shared& s) { return static_cast<std::uint16_t>(s.options.incarnation % 65521); }

// Where the data plane of a node listens, with port 0 if the system chooses the port (plane.cpp).
expected<net::address, coded_error> data_place_of(const node_spec& n);

// For /metrics, from any thread (facts.cpp).
metrics_facts facts_of(const shared& s);
// The state of this node and its `roles`, from any thread (looks.cpp).
report report_of(const shared& s, const std::vector<role_published>& roles, instant now);
// What a client asks this node about its roles (looks.cpp).
looked answer_to(const shared& s, const look& what, const person& who);

// Sends the answer to line `id` of `peer`, in one or more messages (repl.cpp). Any thread.
void send_answer(const shared& s, const std::string& peer, std::uint64_t id, const repl_reply& r);
// The state of this node for lines of `who`, and the way of their commands (repl.cpp). Any thread.
std::unique_ptr<repl_backend> make_backend(shared& s, person who);

// Measures for `troupe doctor` (measured.cpp); blocks.
std::string measured_by(shared& s, const repl_measurement& what);

caf::actor spawn_control(caf::actor_system& system, shared& s);
caf::actor spawn_executor(caf::actor_system& system, shared& s);
caf::actor spawn_checker(caf::actor_system& system, shared& s);
caf::actor spawn_repl(caf::actor_system& system, shared& s);
caf::actor spawn_exchange(caf::actor_system& system, shared& s);

}  // namespace troupe::control

TROUPE_LOCAL_MESSAGE(troupe::control::control_note)
TROUPE_LOCAL_MESSAGE(troupe::control::operation_note<troupe::control::job_executor>)
TROUPE_LOCAL_MESSAGE(troupe::control::operation_note<troupe::control::checker>)
TROUPE_LOCAL_MESSAGE(troupe::control::ask_in)
TROUPE_LOCAL_MESSAGE(troupe::control::answer_in)
TROUPE_LOCAL_MESSAGE(troupe::control::look_in)
TROUPE_LOCAL_MESSAGE(troupe::control::coordinator_gone)
TROUPE_LOCAL_MESSAGE(troupe::control::exchange_in)
