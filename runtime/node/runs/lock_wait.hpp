// Waits for the lock that another process holds on a file of the runs. After one second the user is
// told, once, which file it is and which process holds it.
// Errors: none. Threads: one at a time.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "runtime/record/safetensors.hpp"

namespace troupe {

// How a caller waits for locks.
struct lock_patience {
  std::function<void(const std::string&)> notice = {};  // told once for each wait; may be empty
  std::chrono::milliseconds database{10'000};           // how long to wait for runs.db; after that it is an error
};

// The process that has locked one of these files for writing, if the system knows: 0 if not.
int process_with_lock(const std::vector<std::filesystem::path>& files);

class lock_wait {
 public:
  // `files`: of one lock; messages name the first.
  lock_wait(std::vector<std::filesystem::path> files, std::function<void(const std::string&)> notice)
      : files_(std::move(files)), notice_(std::move(notice)) {}
  // A new wait begins.
  void begin();
  // Pauses before the next try.
  void pause();
  std::chrono::milliseconds waited() const;
  // The error of a wait that is given up.
  record_error given_up() const;

 private:
  std::string holder() const;  // "process 17", or "another process"

  const std::vector<std::filesystem::path> files_;
  const std::function<void(const std::string&)> notice_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  bool told_ = false;
};

}  // namespace troupe
