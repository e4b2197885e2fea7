// The events of one job on their way to its followers: which wait for files, which were sent, and
// which is the last. A value.
//
// Invariants:
//   * An event waits for the stores that were begun before it, so a checkpoint is announced when it
//     is on disk. Events keep their order: one that follows a waiting event waits too.
//   * A job has at most one last event (done, preempted or error). Events that still wait when it
//     is set are dropped.
//   * The history is sent once per connection of a client; a client that asks again has received it
//     and every event since.
//   * Memory is bounded: the newest 256 `step` events and the newest 2048 others are kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/cluster/controller/orders.hpp"
#include "runtime/cluster/job_event.hpp"

namespace troupe::control {

class event_log {
 public:
  static constexpr std::size_t max_steps = 256, max_others = 2048;

  // --- stores
  void store_begun() { ++stores_; }
  // One store has ended, or one that was given up. Its result is kept until its event takes it.
  void store_ended(stored result);
  void give_up_stores();  // their deadline is over
  std::uint32_t stores() const { return stores_; }
  bool stores_given_up() const { return given_up_; }
  // Removes and returns the oldest result for `what`; nullopt: none.
  std::optional<stored> take_result(kept_kind what);
  const std::deque<stored>& results() const { return results_; }

  // --- events
  // Returns true if the event waits for a store. False: handle it now.
  bool holds(const job_event& e);
  // Removes and returns the next event that no longer waits. Nullopt: none, or the job has its last
  // event.
  std::optional<job_event> next_released();
  // Adds an event to the history; it has been sent to the followers.
  void sent(job_event e);
  // The events so far in the order of their steps, the last event at the end.
  std::vector<const job_event*> history() const;

  // --- the last event
  // Returns false if the job has one already; that one stays.
  bool end_with(job_event e);
  bool ended() const { return last_.has_value(); }
  const std::optional<job_event>& last() const { return last_; }
  // The last event, to be completed before it is sent. Requires ended().
  job_event& last_to_complete() { return *last_; }

  // --- followers: clients that get every event
  const std::set<std::string>& followers() const { return followers_; }
  void follow(const std::string& client) { followers_.insert(client); }
  // Returns true if the history must be sent to the client: it has not received it on this
  // connection, and does not follow the job.
  bool needs_history(const std::string& client) { return notified_.insert(client).second && !followers_.contains(client); }
  void disconnected(const std::string& client);
  void drop_followers() { followers_.clear(); }  // no further event comes

 private:
  std::uint32_t stores_ = 0;         // in progress
  bool given_up_ = false;            // stores exceeded their deadline
  std::deque<stored> results_;       // of stores whose event has not been handled
  std::deque<job_event> held_;       // wait for stores; empty if none is in progress or the job has ended
  std::deque<job_event> steps_;      // sent: the newest `step` events
  std::deque<job_event> others_;     // sent: the newest of all others
  std::optional<job_event> last_;    // set when the job begins to end; sent when all its nodes have ended it
  std::set<std::string> followers_;  // empty once the last event was sent
  std::set<std::string> notified_;   // connected clients that have received the history
};

}  // namespace troupe::control
