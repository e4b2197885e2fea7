#include "ops/cuda/pool.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace troupe::cuda {

std::size_t block_size(std::size_t bytes) {
  const auto n = std::max<std::size_t>(bytes, 1);
  const std::size_t step = n <= 64 << 10 ? 256 : std::bit_floor(n - 1) / 8;
  return (n + step - 1) / step * step;
}

gpu_block::~gpu_block() {
  if (owner) owner->give_back(*this);
}

pool::~pool() {
  for (auto& [size, list] : free_)
    for (auto& m : list) cudaFree(m.at);  // fails if the driver has ended; the process then has no memory there
}

void* pool::make(std::size_t size) {
  void* p = nullptr;
  const current_device here(device_);
  const auto e = cudaMalloc(&p, size);
  if (e == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // not sticky
    return nullptr;
  }
  check(e, "cudaMalloc");
  return p;
}

std::shared_ptr<storage> pool::allocate(std::size_t bytes) {
  const auto size = block_size(bytes);
  auto b = std::make_shared<gpu_block>();
  b->bytes = bytes;
  b->size = size;
  b->space.device = static_cast<std::int16_t>(device_);
  const std::lock_guard guard(lock_);
  auto& s = statistics_;
  if (auto& list = free_[size]; !list.empty()) {
    b->data = static_cast<std::byte*>(list.back().at);
    b->used = std::move(list.back().used);
    list.pop_back();
    ++s.blocks_reused;
  } else {
    auto* p = make(size);
    if (!p && release_unused_locked() > 0) p = make(size);
    if (!p) {
      std::size_t left = 0, total = 0;
      const current_device here(device_);
      cudaMemGetInfo(&left, &total);
      throw out_of_memory(name_ + " is out of memory: " + std::to_string(bytes) + " bytes were asked for, this process holds " +
                          std::to_string(s.bytes_held) + " bytes in tensors, and " + std::to_string(left) + " of " +
                          std::to_string(total) +
                          " bytes are free; use a smaller batch, fewer packets in flight (pipeline.sub_solvers), or more devices");
    }
    b->data = static_cast<std::byte*>(p);
    b->used = std::make_shared<uses>();
    s.bytes_held += size;
    ++s.blocks_made;
  }
  b->owner = shared_from_this();
  s.bytes_in_use += size;
  s.peak_bytes_in_use = std::max(s.peak_bytes_in_use, s.bytes_in_use);
  return b;
}

void pool::give_back(gpu_block& b) {
  const std::lock_guard guard(lock_);
  free_[b.size].push_back({b.data, std::move(b.used)});
  statistics_.bytes_in_use -= b.size;
}

device::pool_statistics pool::statistics() const {
  const std::lock_guard guard(lock_);
  return statistics_;
}

std::size_t pool::release_unused() {
  const std::lock_guard guard(lock_);
  return release_unused_locked();
}

std::size_t pool::release_unused_locked() {
  std::size_t freed = 0;
  const current_device here(device_);
  for (auto& [size, list] : free_) {
    for (auto& m : std::exchange(list, {})) {
      check(cudaFree(m.at), "cudaFree");
      freed += size;
    }
  }
  statistics_.bytes_held -= freed;
  return freed;
}

}  // namespace troupe::cuda
