// State that the actors of one job on this node share: addresses, monitor entries, and the number
// of live actors. Written before the first message is delivered, then read without locks.
// Actors hold a reference to it until they end; it holds their handles.
#pragma once

#include <atomic>
#include <cassert>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "actors/shell/caf_compat.hpp"
#include "actors/shell/job_log.hpp"
#include "actors/shell/monitor.hpp"
#include "actors/shell/node_host.hpp"
#include "actors/shell/param_store.hpp"
#include "ops/stream_by_rules.hpp"
#include "runtime/trace/recorder.hpp"

namespace troupe {

// State that all jobs hosted on this node share. Outlives the actor system.
struct node_shared {
  host_callbacks callbacks;
  std::vector<std::shared_ptr<device>> devices;  // by number in the node's list
  std::size_t message_log = 0;                   // capacity per job, in bytes
  std::atomic<std::uint64_t> unknown_job{0}, unknown_role{0}, old_incarnation{0}, to_failed{0};

  std::unique_ptr<activity_recorder> activities;  // null: none
};

class hosted_job {
 public:
  using clock = std::chrono::steady_clock;

  hosted_job(node_shared& n, std::uint32_t number, std::uint32_t where, std::vector<std::uint32_t> nodes, std::uint32_t generation)
      : node(n),
        id(number),
        me(where),
        plan_generation(generation),
        node_of(std::move(nodes)),
        device_at(node_of.size(), 0),
        rules_of(node_of.size()),
        handles(node_of.size()),
        entries(node_of.size()) {
    if (n.message_log > 0) log = std::make_shared<job_log>(n.message_log, node_of.size());
    if (n.activities) began_in_record_ = n.activities->time_of(began);
  }

  node_shared& node;
  const std::uint32_t id, me;
  const std::uint32_t plan_generation;       // header::incarnation of the messages of this plan's roles
  std::shared_ptr<const prepared_job> plan;  // null: the caller constructed the roles
  const clock::time_point began = clock::now();
  std::vector<std::uint32_t> node_of;
  std::vector<std::uint32_t> device_at;                 // by role, for roles on this node: index in node.devices
  std::vector<maths_rules> rules_of;                    // by role, for roles on this node
  std::vector<caf::actor> handles;                      // by role; empty: not on this node
  std::vector<std::unique_ptr<monitor_entry>> entries;  // by role; null: not on this node
  std::atomic<bool> ended{false};
  param_store parameters;        // shared by Hogwild workers
  std::shared_ptr<job_log> log;  // may outlive the job, for readers of the log; null: no log
  std::atomic<int> waiting{0};   // sub-solvers with a task that has not begun

  time_point now() const { return clock::now() - began; }
  // Adds to the record of what roles did. `at`: since the job's start.
  void record(activity a, time_point at) const {
    if (!node.activities) return;
    a.at = began_in_record_ + at;
    a.job = id;
    node.activities->add(a);
  }
  // The device that runs the tasks of a role on this node.
  device& device_of(role_id r) const { return *node.devices[device_at[index_of(r)]]; }
  // Another stream of that device; null if it has no queues.
  std::shared_ptr<device> make_stream(role_id r) const { return stream_by_rules(device_of(r), rules_of[index_of(r)]); }

  // Returns false for a message of a role of an earlier plan.
  bool admits(const header& h) const { return index_of(h.src) >= node_of.size() || h.incarnation >= plan_generation; }

  void joined(unsigned count) {
    std::lock_guard guard(lock_);
    alive_ += count;
  }
  void left() {
    std::lock_guard guard(lock_);
    assert(alive_ > 0);
    if (--alive_ == 0) gone_.notify_all();
  }
  void wait_until_gone() {
    std::unique_lock guard(lock_);
    gone_.wait(guard, [this] { return alive_ == 0; });
  }

 private:
  time_point began_in_record_{};
  std::mutex lock_;
  std::condition_variable gone_;
  unsigned alive_ = 0;
};

}  // namespace troupe
