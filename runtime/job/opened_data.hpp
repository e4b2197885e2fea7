// The data that a process has opened last, for jobs that name it again: a submission that is
// checked and then prepared, a node that joins a job again, the next job with the same files.
//
// Invariants: data is used again only if source, options and seed are the same and none of its
// files has changed (device, inode, size, time of change). Sources that do not list their files,
// and those that open whole folders, are opened each time. At most one source is kept here, and it
// is given up before another one is opened.
// Threads: any. Two threads may open the same data at the same time; neither waits for the other.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/data/source.hpp"
#include "runtime/spec/job_spec.hpp"

namespace troupe {

class opened_data {
 public:
  using instant = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds keeps{60};  // data that no job uses

  // The source with its validation split. Throws option_error.
  std::shared_ptr<const source> open(const source_type& type, const data_spec& d, std::uint64_t seed);
  // Called now and then: gives up data that no job has used since `keeps` ago.
  void release_unused(instant now);

 private:
  // Of a file: path, device, inode, bytes, time of its last change in ns.
  using file_state = std::tuple<std::string, std::uint64_t, std::uint64_t, std::int64_t, std::int64_t>;
  struct key {
    std::string source;
    decltype(options::values) values;
    double validation = 0;
    std::uint64_t seed = 0;
    std::vector<file_state> files;
    bool operator==(const key&) const = default;
  };
  static std::optional<key> key_of(const source_type& type, const data_spec& d, std::uint64_t seed);

  std::mutex lock_;
  std::optional<key> key_;
  std::shared_ptr<const source> data_;
  std::optional<instant> unused_since_;
};

}  // namespace troupe
