// Keeps the latest activities of the roles of one host, in a ring for each thread. The rings
// outlive the roles, so that one can look at what happened before a role or a job ended.
//
// Cost of add(): about 20 ns; it takes no lock after a thread's first call. Memory: `bytes` for the
// number of threads given, plus as much as one thread has for each further thread that records.
// The memory of a thread is used from its first call on, so it does not grow.
// Threads: any.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/trace/activity.hpp"

namespace troupe {

// The names of the roles of a plan on this host, by role; empty: on another host.
struct activity_names {
  time_point since{};  // activities of the job from then on have these roles
  std::uint32_t job = 0;
  std::vector<std::string> roles;
  bool operator==(const activity_names&) const = default;
};

class activity_recorder {
 public:
  activity_recorder(std::size_t bytes, unsigned threads);
  ~activity_recorder();
  activity_recorder(const activity_recorder&) = delete;
  activity_recorder& operator=(const activity_recorder&) = delete;

  // Since the recorder's beginning.
  time_point time_of(std::chrono::steady_clock::time_point t) const { return t - begun_; }
  time_point now() const { return time_of(std::chrono::steady_clock::now()); }
  void add(const activity& a);
  // The roles of a plan begin.
  void name(std::uint32_t job, std::vector<std::string> roles);
  // Of the latest `plans_named` plans.
  std::vector<activity_names> names() const;
  static constexpr std::size_t plans_named = 8;

  // A position in the rings. A new one is before the oldest activity.
  struct position {
    std::map<std::size_t, std::uint64_t> read;  // by ring
  };
  struct reading {
    std::vector<activity> all;  // by time of recording within a thread; threads one after the other
    std::uint64_t lost = 0;     // overwritten before they were read
    bool more = false;          // there was more than was wanted
  };
  // What was added since `from`, which moves to the end of what was read: of each ring the oldest,
  // about `most` in all.
  reading read(position& from, std::size_t most = SIZE_MAX) const;

 private:
  struct ring;
  ring& own_ring();

  const std::uint64_t serial_;  // of this recorder in the process
  const std::size_t capacity_;  // activities of a ring
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  mutable std::mutex lock_;  // protects what follows; rings are only added
  std::vector<std::unique_ptr<ring>> rings_;
  std::map<std::thread::id, ring*> of_thread_;
  std::vector<activity_names> names_;
};

}  // namespace troupe
