// The virtual GPUs of a process, behind the fake libraries. Callers hold `lock`.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "tests/vgpu/device_state.hpp"

namespace troupe::vgpu {

// What has happened before a point of time: by stream number, how many of its operations. 0: host.
class vector_clock {
 public:
  void join(const vector_clock& other);
  bool covers(const vector_clock& earlier) const;
  std::uint64_t tick(std::size_t stream) { return ++at(stream); }
  std::uint64_t& at(std::size_t stream);

 private:
  std::vector<std::uint64_t> counts_;
};

struct event_state {
  int device = 0;
  std::uint64_t recorded = 0, done = 0;  // numbers of records
  vector_clock clock;                    // of the last record
};
struct operation {
  std::function<void()> run;
  std::shared_ptr<event_state> waits;  // empty, or: not before `wait_for` records of it are done
  std::uint64_t wait_for = 0;
};
struct stream_state {
  std::size_t number = 0;
  int device = 0;
  std::deque<operation> waiting;
  vector_clock clock;  // of the last operation in the queue
};
struct memory_block {
  int device = 0;
  std::size_t bytes = 0, span = 0;  // span: with the guard page
  vector_clock written, read;
  std::string writer, reader;
};

// size: devices, memory, streams and clocks form one machine; each operation reads and updates all
// of them
class machine {
 public:
  explicit machine(const options& o);
  ~machine();
  machine(const machine&) = delete;
  machine& operator=(const machine&) = delete;

  static machine& now();  // aborts before reset()
  static inline std::recursive_mutex lock;

  const options chosen;
  counts counted;
  std::vector<std::string> findings;
  vector_clock host;
  std::map<cudaEvent_t, std::shared_ptr<event_state>> events;
  std::map<std::uintptr_t, std::size_t> pinned;  // host memory of cudaHostAlloc: address, bytes

  // --- memory
  cudaError_t allocate(int device, std::size_t bytes, void** p);
  cudaError_t release(void* p);
  bool is_device(const void* p) const { return p >= front_ && p < front_ + room_; }
  bool is_pinned(const void* p) const;
  const memory_block* block_at(const void* p) const { return const_cast<machine*>(this)->block_of(p); }
  std::size_t bytes_from(const void* p) const;  // to the end of its block
  std::size_t used(int device) const { return used_[static_cast<std::size_t>(device)]; }
  void* back_of(const void* p) const { return back_ + (static_cast<const std::byte*>(p) - front_); }

  // --- streams
  stream_state* make_stream(int device);
  stream_state* stream_of(cudaStream_t s);  // null after a finding
  void drop_stream(stream_state* s);
  const std::vector<std::unique_ptr<stream_state>>& streams() const { return streams_; }
  // Checks the uses and appends the operation, without its work if a block is too small. Returns
  // the error of a lost device.
  cudaError_t append(stream_state& s, const std::string& name, const std::vector<access>& uses, std::function<void()> run);
  void append_plain(stream_state& s, operation o);  // records and waits
  void drift();                                     // the devices run zero or more operations
  // Runs operations until done() is true. Returns an error if a lost device prevents that; aborts
  // on a wait that cannot end.
  template <class F>
  cudaError_t run_until(F done) {
    while (!done())
      if (!run_one()) return stuck();
    return cudaSuccess;
  }
  bool lost(int device) const { return lost_[static_cast<std::size_t>(device)]; }
  std::uint64_t random() { return random_(); }

 private:
  memory_block* block_of(const void* p);
  void check_order(const std::string& name, const std::vector<access>& uses, const stream_state& s);
  // False after a finding.
  bool check_sizes(const std::string& name, const std::vector<access>& uses) const;
  bool run_one();
  cudaError_t stuck();
  void lose(int device);

  std::mt19937_64 random_;
  std::byte *front_ = nullptr, *back_ = nullptr;  // addresses that are handed out, and where the memory is accessed
  int file_ = -1;
  std::size_t room_ = 0, top_ = 0;
  std::map<std::uintptr_t, memory_block> blocks_;
  std::vector<std::size_t> used_;
  std::vector<bool> lost_;
  std::vector<std::unique_ptr<stream_state>> streams_;
  std::size_t streams_made_ = 0;
  std::int64_t operations_ = 0, allocations_ = 0;
};

}  // namespace troupe::vgpu
