// State that the actors of one job on this node share: addresses, monitor entries, fences, and the
// number of live actors. Written before the first message is delivered, then read without locks.
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

  hosted_job(node_shared& n, std::uint32_t number, std::uint32_t where, std::vector<std::uint32_t> nodes, std::uint32_t least)
      : node(n),
        id(number),
        me(where),
        first_incarnation(least),
        node_of(std::move(nodes)),
        device_at(node_of.size(), 0),
        rules_of(node_of.size()),
        handles(node_of.size()),
        entries(node_of.size()),
        floors_(std::make_unique<std::atomic<std::uint32_t>[]>(node_of.size())) {
    for (std::size_t r = 0; r < node_of.size(); ++r) floors_[r] = least;
    if (n.message_log > 0) log = std::make_shared<job_log>(n.message_log, node_of.size());
    if (n.activities) began_in_record_ = n.activities->time_of(began);
  }

  node_shared& node;
  const std::uint32_t id, me;
  const std::uint32_t first_incarnation;     // of the roles of this plan; the roles themselves count from 0
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

  // Returns true if a message of incarnation `i` of `source` is to be delivered. A newer
  // incarnation raises the fence.
  bool admits(role_id source, std::uint32_t i) {
    if (index_of(source) >= node_of.size()) return true;
    auto& floor = floors_[index_of(source)];
    std::uint32_t seen = floor.load(std::memory_order_relaxed);
    if (i == seen) return true;
    while (seen < i && !floor.compare_exchange_weak(seen, i, std::memory_order_relaxed)) {
    }
    return i >= seen;
  }

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
  std::unique_ptr<std::atomic<std::uint32_t>[]> floors_;
  time_point began_in_record_{};
  std::mutex lock_;
  std::condition_variable gone_;
  unsigned alive_ = 0;
};

}  // namespace troupe
