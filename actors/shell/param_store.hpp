// The parameters that the Hogwild workers of one node share (Niu et al. 2011): blocks of numbers
// that any thread may read and add to at any time without a lock. Each element is loaded and stored
// with relaxed atomics, so values are never torn. Load + add + store is not atomic: an addition
// between another thread's load and store is lost. This is the algorithm; it is several times as
// fast as atomic addition.
//
// Threads: any. Creating a block takes a lock; reading and adding do not.
// Errors: std::logic_error for a block that was never written or has another size or type. It is a
// bug and ends the role.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "runtime/role.hpp"

namespace troupe {

class param_store {
 public:
  static constexpr std::uint32_t max_blocks = 1u << 20;
  param_store() = default;
  ~param_store();
  param_store(const param_store&) = delete;
  param_store& operator=(const param_store&) = delete;

  void perform(shared_effect& e, device& dev);

 private:
  struct block;
  struct page;  // blocks are allocated in pages, so that their addresses are stable
  static constexpr std::uint32_t page_size = 1024;
  block* find(std::uint32_t id) const;
  block& create(std::uint32_t id, const tensor& like);

  std::mutex lock_;
  std::atomic<page*> pages_[max_blocks / page_size] = {};
};

}  // namespace troupe
