// Deleters of received payloads: they return the frame's credit and its memory. release_credit()
// finds them by type.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "runtime/node/net/buffer_pool.hpp"

namespace troupe::net {

// Copied only before use; released once, by any thread.
struct credit_debt {
  std::shared_ptr<credit_account> account;
  std::uint64_t cost = 0;
  alignas(std::atomic_ref<int>::required_alignment) int released = 0;

  credit_debt(std::shared_ptr<credit_account> a, std::uint64_t c) : account(std::move(a)), cost(c) {}
  void release() {
    if (account && std::atomic_ref<int>(released).exchange(1) == 0) account->give_back(cost);
  }
};

struct block_deleter {
  credit_debt debt;
  std::shared_ptr<buffer_pool> pool;
  buffer_pool::block memory;
  credit_debt shared{nullptr, 0};  // credit of the frame's shared buffers
  void release() {
    debt.release();
    shared.release();
  }
  void operator()(std::byte*) {
    release();
    pool->give_back(std::move(memory));
  }
};

}  // namespace troupe::net
