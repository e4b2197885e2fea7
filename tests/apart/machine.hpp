// A simulated machine with its own device memory, for tests: CPU computation behind the interface
// of a GPU. It tests that only devices access device memory, and that results do not depend on when
// queued work runs.
//
//   memory   one file, mapped twice. Tensors have addresses of a mapping without access rights (a
//            host access is an immediate SIGSEGV); kernels access the same bytes through the other
//            mapping.
//   streams  a primitive is appended to the queue of its stream. Between calls the machine runs
//            zero or more operations from any queues that are ready, chosen by a seed, so that
//            every legal order can occur. An operation that the host waits for is run immediately.
//   order    every operation declares its reads and writes. Vector clocks over the streams detect a
//            missing wait at once, for every execution order. Mistakes can be planted, to test that
//            they are found.
//
// Threads: all members may be called from any thread; operations run one at a time.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ops/tensor.hpp"

namespace troupe::apart {

constexpr std::size_t queues = 4;  // all streams share these queues

// A deliberate mistake of the device.
enum class planted : std::uint8_t {
  none,
  read_does_not_wait,   // a stream reads memory that another one writes, without waiting for it
  write_does_not_wait,  // a stream writes memory that another one still reads
  reuse_does_not_wait,  // memory of dropped handles is reused while it is still read
  reported_too_early,   // the host receives a number before it has been computed
  host_looks,           // the host reads device memory
  crossing_left_out,    // devices report a common memory space, so tensors are not fetched between them
};

struct event {
  std::uint32_t queue = 0;
  std::uint64_t at = 0;  // done when this number of operations of the queue is done
};
using clock = std::array<std::uint64_t, queues>;

// Previous accesses to a block of memory, for ordering the next ones.
struct uses {
  event written;
  clock written_clock{};
  std::array<std::uint64_t, queues> read{};  // per queue: the last read
  std::array<clock, queues> read_clock{};
};

struct block final : storage {
  block(std::shared_ptr<class machine> m, std::int16_t of, std::size_t place, std::size_t room);
  ~block();
  std::shared_ptr<class machine> owner;
  std::int16_t device = 0;  // device that owns the memory
  std::size_t at = 0, size = 0;
  uses used;           // including uses before the block was reused
  bool blind = false;  // planted mistake: the next write does not wait for `used`
};

// size: memory, queues and clocks form one machine; each operation reads and updates all of them
class machine : public std::enable_shared_from_this<machine> {
 public:
  explicit machine(std::uint64_t seed);
  ~machine();

  // Allocates memory of one device. The streams of all devices share the queues. Only fetch() may
  // access another device's memory.
  std::shared_ptr<storage> allocate(std::size_t bytes, std::int16_t device);
  std::int16_t space_of(std::int16_t device) const { return fault == planted::crossing_left_out ? std::int16_t{0} : device; }
  bool is_front(const void* p) const { return p >= front_ && p < front_ + room_; }
  std::byte* back_of(const void* front) const { return back_ + (static_cast<const std::byte*>(front) - front_); }

  // Appends operation `run` to queue `q`. Does not hold the tensors: memory that is dropped before
  // the operation has run may be reused.
  event enqueue(std::uint32_t q, const std::vector<tensor>& reads, const std::vector<tensor>& writes, const char* what,
                std::function<void()> run);
  bool done(const event& e);
  void wait(const event& e);
  event written(const tensor& t);              // completion of the last write to t
  void when_done(std::function<void()> then);  // runs on the machine's own thread, which may block
  void drift();                                // runs zero or more operations

  std::uint32_t next_queue() { return static_cast<std::uint32_t>(streams_made_++ % queues); }
  std::vector<std::string> findings();
  std::uint64_t operations() const { return operations_; }
  planted fault = planted::none;
  void find(std::string what);
  static inline std::function<void(const std::string&)> on_finding;  // called immediately for findings of any machine
  struct counts {
    std::size_t held = 0, in_use = 0, peak = 0;
    std::uint64_t made = 0, reused = 0;
  };
  counts statistics();

 private:
  struct operation {
    std::function<void()> run;
    std::vector<event> after;
  };
  friend struct block;
  void give_back(block& b);
  bool may_run(std::uint32_t q) const;
  void run_one(std::uint32_t q);
  void run_until(const event& e);

  std::recursive_mutex lock_;  // recursive: an operation may drop the last handle of a block when it ends
  std::byte *front_ = nullptr, *back_ = nullptr;
  std::size_t room_ = 0, top_ = 0;
  std::map<std::pair<std::int16_t, std::size_t>, std::vector<std::pair<std::size_t, uses>>> free_;  // by device, size
  std::array<std::deque<operation>, queues> waiting_;
  std::array<std::uint64_t, queues> put_{}, done_{};
  std::array<clock, queues> clocks_{};
  std::mt19937_64 random_;
  std::vector<std::string> findings_;
  std::uint64_t operations_ = 0, streams_made_ = 0;
  counts counts_;
  // Queue of when_done(). A call may hold the last handle of the machine, so its thread accesses
  // only this part of it.
  struct calls {
    std::mutex lock;
    std::condition_variable called;
    std::deque<std::function<void()>> waiting;
    bool ends = false;
  };
  static void serve(const std::shared_ptr<calls>& c);
  std::shared_ptr<calls> calls_ = std::make_shared<calls>();
  std::thread server_;
};

}  // namespace troupe::apart
