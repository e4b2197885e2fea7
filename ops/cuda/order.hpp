// The order of operations on one GPU. A queue is a CUDA stream that counts its operations; a block
// of memory remembers which operations of which queues used it last. Before an operation is
// enqueued, its queue waits for the operations of other queues that it must follow:
//   it reads    what they write
//   it writes   what they write or read
// Waits use events that are recorded only when another queue needs them, so work of one queue costs
// no event.
// Threads: all members may be called from any thread. A thread holds `enqueuing` while it enqueues
// the parts of one operation.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "ops/cuda/check.hpp"

namespace troupe::cuda {

// A CUDA event of the current device; without timing.
class event {
 public:
  event() { check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate"); }
  ~event() { cudaEventDestroy(event_); }
  event(const event&) = delete;
  event& operator=(const event&) = delete;
  cudaEvent_t get() const { return event_; }
  bool done() const;  // throws cuda_error if the device is lost
  void wait() const { check(cudaEventSynchronize(event_), "wait for the device"); }

 private:
  cudaEvent_t event_ = nullptr;
};

// Makes a device the current one of this thread, and restores the former one.
class current_device {
 public:
  explicit current_device(int device) {
    check(cudaGetDevice(&former_), "cudaGetDevice");
    if (former_ != device) check(cudaSetDevice(device), "cudaSetDevice");
    changed_ = former_ != device;
  }
  ~current_device() {
    if (changed_) cudaSetDevice(former_);
  }
  current_device(const current_device&) = delete;
  current_device& operator=(const current_device&) = delete;

 private:
  int former_ = 0;
  bool changed_ = false;
};

class queue {
 public:
  explicit queue(int device);
  ~queue() { cudaStreamDestroy(stream_); }
  queue(const queue&) = delete;
  queue& operator=(const queue&) = delete;

  std::recursive_mutex enqueuing;
  int device() const { return device_; }
  cudaStream_t stream() const { return stream_; }
  // Counts the operation that has been enqueued last; returns its number, from 1.
  std::uint64_t count();
  // Enqueues a wait until the first `at` operations of `other` are done.
  void wait_for(queue& other, std::uint64_t at);
  // Records an event behind all operations enqueued so far.
  std::shared_ptr<event> record();

 private:
  std::shared_ptr<event> record_locked();
  // An event behind the first `at` operations, or more.
  std::shared_ptr<event> event_behind(std::uint64_t at);
  struct recorded {
    std::uint64_t at;
    std::shared_ptr<event> when;
  };
  const int device_;
  const std::uint64_t id_;  // of this queue in the process
  cudaStream_t stream_ = nullptr;
  std::mutex lock_;  // never held while another queue's is taken
  std::uint64_t enqueued_ = 0;
  std::deque<recorded> events_;                    // the newest, in order
  std::map<std::uint64_t, std::uint64_t> waited_;  // by id: this queue has waited for so many operations of that one
};

// An operation in a queue.
struct position {
  std::shared_ptr<queue> in;
  std::uint64_t at = 0;
};

// The last uses of a block of memory.
class uses {
 public:
  void before_read(queue& q);
  void before_write(queue& q);
  void was_read(const position& p);
  void was_written(const position& p);
  // The last write; nothing if there was none.
  position written() const;

 private:
  mutable std::mutex lock_;
  position written_;
  std::vector<position> read_;  // since the last write: the last one per queue
};

}  // namespace troupe::cuda
