// A machine with memory of its own, for tests: CPU maths behind everything that a GPU would do
// differently. What it proves of Troupe is that nothing but a device touches device memory, and
// that results do not depend on when queued work runs.
//
//   memory  one file mapped twice. Tensors carry addresses of a map that nobody may touch (a host access is SIGSEGV, at once); kernels
//           get the same bytes by the other map.
//   lanes   a primitive is put into its lane's queue. Between calls the machine runs none to a few operations, from whichever lanes may
//           go on, drawn by a seed: any legal order can come. What the host waits for is run then.
//   order   every operation says what it reads and writes; vector clocks over the lanes tell at once, whatever order was drawn, when
//           one does not come after what it must come after. Faults can be planted, to see that they are found.
//
// Threads: all members may be called by any; operations run one at a time.
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

constexpr std::size_t queues = 4;  // lanes share so many

// A mistake that the device makes on purpose.
enum class planted : std::uint8_t {
  none,
  read_does_not_wait,   // a lane reads what another writes without waiting for it
  write_does_not_wait,  // a lane writes what another still reads
  reuse_does_not_wait,  // memory of dropped handles is given out again while it is still read
  reported_too_early,   // the host is told a number before it has been computed
  host_looks,           // the host reads device memory
  crossing_left_out,    // devices say that the memory of all is one, so nothing is fetched from one to another
};

struct event {
  std::uint32_t queue = 0;
  std::uint64_t at = 0;  // done when so many operations of the queue are
};
using clock = std::array<std::uint64_t, queues>;

// What has been done to a block of memory, for who comes next.
struct uses {
  event written;
  clock written_clock{};
  std::array<std::uint64_t, queues> read{};  // by queue: its last reader
  std::array<clock, queues> read_clock{};
};

struct block final : storage {
  block(std::shared_ptr<class machine> m, std::int16_t of, std::size_t place, std::size_t room);
  ~block();
  std::shared_ptr<class machine> owner;
  std::int16_t device = 0;  // whose memory it is
  std::size_t at = 0, size = 0;
  uses used;           // those of the block's former life among them
  bool blind = false;  // planted: whoever writes first does not wait for these
};

// size: memory, queues and clocks are one machine: each operation reads and moves all three
class machine : public std::enable_shared_from_this<machine> {
 public:
  explicit machine(std::uint64_t seed);
  ~machine();

  // Memory of one of its devices. Their lanes share the queues; none but fetch() may touch
  // another's memory.
  std::shared_ptr<storage> allocate(std::size_t bytes, std::int16_t device);
  std::int16_t space_of(std::int16_t device) const { return fault == planted::crossing_left_out ? std::int16_t{0} : device; }
  bool is_front(const void* p) const { return p >= front_ && p < front_ + room_; }
  std::byte* back_of(const void* front) const { return back_ + (static_cast<const std::byte*>(front) - front_); }

  // Operation `run` of queue `q`. Handles are not kept: what is dropped before it has run may be
  // given out again.
  event enqueue(std::uint32_t q, const std::vector<tensor>& reads, const std::vector<tensor>& writes, const char* what,
                std::function<void()> run);
  bool done(const event& e);
  void wait(const event& e);
  event written(const tensor& t);              // when what is in t now will be there
  void when_done(std::function<void()> then);  // on the machine's own thread, which may wait
  void drift();                                // runs none to a few operations

  std::uint32_t next_queue() { return static_cast<std::uint32_t>(streams_made_++ % queues); }
  std::vector<std::string> findings();
  std::uint64_t operations() const { return operations_; }
  planted fault = planted::none;
  void find(std::string what);
  static inline std::function<void(const std::string&)> on_finding;  // any machine's, at once
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

  std::recursive_mutex lock_;  // an operation that ends may drop the last handle of a block
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
  // For when_done. A call may hold the last handle of the machine: its thread looks at nothing else
  // of it.
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
