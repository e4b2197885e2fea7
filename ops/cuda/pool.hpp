// Memory of one GPU by size class, so that a training step needs no cudaMalloc, which would wait
// for the whole device. A block that returns to the pool keeps its uses: the next owner's first
// write waits for them, while the host goes on.
// Threads: all members may be called from any thread.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "ops/cuda/order.hpp"
#include "ops/device.hpp"

namespace troupe::cuda {

// The device has not enough memory. The text says what was asked for, held and free.
struct out_of_memory : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class pool;

// A tensor's storage on a GPU. data is a device address.
struct gpu_block final : storage {
  ~gpu_block();
  std::shared_ptr<pool> owner;
  std::size_t size = 0;        // of the memory, the class's size
  std::shared_ptr<uses> used;  // also of former owners of the memory
};

class pool : public std::enable_shared_from_this<pool> {
 public:
  // `name` is the device's, for errors.
  pool(int device, std::string name) : device_(device), name_(std::move(name)) {}
  ~pool();
  pool(const pool&) = delete;
  pool& operator=(const pool&) = delete;

  // Throws out_of_memory; before that it frees the blocks that nothing uses.
  std::shared_ptr<storage> allocate(std::size_t bytes);
  device::pool_statistics statistics() const;
  // Frees the blocks that nothing uses. Waits for the device. Returns the number of bytes.
  std::size_t release_unused();

 private:
  friend struct gpu_block;
  struct memory {
    void* at;
    std::shared_ptr<uses> used;
  };
  void give_back(gpu_block& b);
  std::size_t release_unused_locked();
  void* make(std::size_t size);

  const int device_;
  const std::string name_;
  mutable std::mutex lock_;
  std::map<std::size_t, std::vector<memory>> free_;  // by size
  device::pool_statistics statistics_;
};

// Size of the block for a request: multiples of 256 bytes up to 64 KiB, then eight classes per
// power of two, which waste at most an eighth.
std::size_t block_size(std::size_t bytes);

}  // namespace troupe::cuda
