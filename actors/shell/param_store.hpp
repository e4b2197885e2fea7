// The parameters that the Hogwild workers of one node share (Niu et al. 2011): blocks of numbers
// that any thread reads and adds to at any time, without a lock. Every element is loaded and stored
// by itself with relaxed atomics, so no value is ever torn, but load + add + store is not one step:
// an addition that comes between another's load and store is lost. That is the algorithm, and it is
// several times as fast as an atomic addition.
//
// Threads: all functions may be called from any. Creating a block takes a lock; reading and adding
// do not.
// Errors: a block that nobody wrote, or of another size or type, is a bug: std::logic_error, which
// ends the role.
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
  struct page;  // so that a block's address never moves
  static constexpr std::uint32_t page_size = 1024;
  block* find(std::uint32_t id) const;
  block& create(std::uint32_t id, const tensor& like);

  std::mutex lock_;
  std::atomic<page*> pages_[max_blocks / page_size] = {};
};

}  // namespace troupe
