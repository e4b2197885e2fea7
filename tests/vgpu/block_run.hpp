// Runs the threads of a CUDA block as fibers of one host thread: in random order, each until a
// barrier or a warp operation. Finds
//   * races: two threads access one element of a shared array, one of them writes, and no barrier
//     of the block or of their warp is between them (the rule of NVIDIA's racecheck),
//   * threads that end before a barrier at which others wait,
//   * masks of warp operations that name threads that do not come,
//   * accesses beyond the end of a shared array.
// Shared memory begins as NaN in every block.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/vgpu/fiber.hpp"

namespace troupe::vgpu {

// The built-in variables of a thread.
struct thread_place {
  uint3 thread{}, block{};
  dim3 block_dim, grid_dim;
  int number = 0;  // in its block
  int lane() const { return number & 31; }
};

// Last accesses to an element of shared memory.
struct race_cell {
  std::uint32_t write_epoch = 0, read_epoch = 0, write_warp_epoch = 0, read_warp_epoch = 0;
  std::int16_t writer = -1, reader = -1;
  bool more_readers = false;
};

// A block of a launch.
struct block_launch {
  const char* kernel = "";
  dim3 grid, block;
  uint3 at{};  // blockIdx
  std::size_t dynamic_bytes = 0;
  std::uint64_t seed = 0;
  bool shuffled = true;
};

// size: threads, barriers, warps and shared memory of a block form one machine
class block_run {
 public:
  static block_run& mine();  // of this host thread
  // The running thread.
  static const thread_place& here() { return *mine().here_; }

  // Runs all threads of a block; each calls body(argument).
  void run(const block_launch& l, void (*body)(void*), void* argument);

  // The operations of the running thread.
  void barrier();
  // Gives `mine` to the other threads of `mask` in the warp and returns that of lane `from`.
  // from < 0: returns `mine`.
  std::uint64_t exchange(std::uint32_t mask, std::uint64_t mine, int from);
  std::uint32_t ballot(std::uint32_t mask, bool vote);
  void warp_barrier(std::uint32_t mask);

  // A shared array of the kernel: `bytes` for the declaration `tag`, and a cell for each of its
  // `count` elements.
  struct shared_memory {
    std::byte* data;
    race_cell* cells;
  };
  shared_memory shared(const void* tag, std::size_t bytes, std::size_t count);
  shared_memory dynamic(std::size_t& bytes);  // cells: one for every four bytes
  void touch(race_cell& c, bool write, std::size_t index);
  void beyond(std::int64_t index, std::int64_t count);

 private:
  struct runner;  // a fiber that runs threads, one after the other
  struct warp_state {
    std::uint64_t value[2][32];
    std::uint32_t posted[2] = {0, 0}, want[2] = {0, 0}, done = 0;
  };
  struct shared_array {
    const void* tag;
    std::size_t bytes;
    std::unique_ptr<std::byte[]> data;
    std::vector<race_cell> cells;
  };
  static void run_threads(void* runner);
  void start(const block_launch& l);
  void schedule();
  runner* choose();
  void end_barrier();
  void report(const std::string& what);
  void wait();
  std::uint32_t below(std::uint32_t n);

  block_launch launch_;
  void (*body_)(void*) = nullptr;
  void* argument_ = nullptr;
  std::minstd_rand random_;
  const thread_place* here_ = nullptr;
  runner* current_ = nullptr;
  int threads_ = 0, started_ = 0, ended_ = 0, at_barrier_ = 0;
  std::uint32_t epoch_ = 1;                             // number of barriers so far, from 1
  std::vector<int> order_;                              // of the threads
  std::vector<std::uint32_t> warp_calls_, warp_epoch_;  // by thread: warp operations so far; warp barriers so far
  std::vector<warp_state> warps_;
  std::vector<std::unique_ptr<runner>> runners_;
  std::vector<runner*> free_, ready_, waiting_for_block_, waiting_for_warp_;
  std::vector<shared_array> shared_;
  std::vector<std::byte> dynamic_;
  std::vector<race_cell> dynamic_cells_;
};

}  // namespace troupe::vgpu
