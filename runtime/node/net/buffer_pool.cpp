#include "runtime/node/net/buffer_pool.hpp"

#include <atomic>
#include <bit>
#include <new>

#include "runtime/node/net/transport.hpp"

namespace troupe::net {

void credit_account::charge(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  held_ += bytes;
}

void credit_account::give_back(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  held_ -= bytes;
  const bool below = returned_ < report_at_;
  returned_ += bytes;
  // The reporter only posts, so it may run under the lock; that makes detaching safe.
  if (below && returned_ >= report_at_ && report_) report_();
}

std::uint64_t credit_account::collect() {
  const std::lock_guard lock(mutex_);
  return std::exchange(returned_, 0);
}

std::uint64_t credit_account::held() const {
  const std::lock_guard lock(mutex_);
  return held_;
}

void credit_account::on_report(std::function<void()> f) {
  const std::lock_guard lock(mutex_);
  report_ = std::move(f);
}

struct block_deleter {
  std::shared_ptr<buffer_pool> pool;
  std::shared_ptr<credit_account> account;
  std::size_t capacity;
  std::uint64_t cost;
  alignas(std::atomic_ref<int>::required_alignment) int returned = 0;

  void release_credit() {
    if (account && std::atomic_ref<int>(returned).exchange(1) == 0) account->give_back(cost);
  }
  void operator()(std::byte* block) {
    release_credit();
    pool->give_back(block, capacity);
  }
};

void release_credit(const std::shared_ptr<const void>& payload) {
  if (auto* d = std::get_deleter<block_deleter>(payload)) d->release_credit();
}

std::shared_ptr<buffer_pool> buffer_pool::make(std::uint64_t keep_bytes) {
  return std::shared_ptr<buffer_pool>(new buffer_pool(keep_bytes));
}

buffer_pool::~buffer_pool() {
  for (auto& [size, blocks] : free_)
    for (std::byte* b : blocks) ::operator delete (b, std::align_val_t{alignment});
}

std::size_t buffer_pool::class_size(std::size_t bytes) {
  constexpr std::size_t smallest = 256;
  if (bytes <= smallest) return smallest;
  const std::size_t quarter = std::bit_floor(bytes - 1) / 4;
  return (bytes + quarter - 1) / quarter * quarter;
}

std::shared_ptr<std::byte> buffer_pool::take(std::size_t bytes, std::shared_ptr<credit_account> account) {
  const std::size_t capacity = class_size(bytes);
  std::byte* block = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto found = free_.find(capacity);
    if (found != free_.end() && !found->second.empty()) {
      block = found->second.back();
      found->second.pop_back();
      kept_ -= capacity;
    }
  }
  if (block == nullptr) block = static_cast<std::byte*>(::operator new (capacity, std::align_val_t{alignment}, std::nothrow));
  if (block == nullptr) return nullptr;
  const std::uint64_t cost = frame_cost(bytes);
  if (account) account->charge(cost);
  try {
    return {block, block_deleter{shared_from_this(), std::move(account), capacity, cost}};
  } catch (const std::bad_alloc&) {
    return nullptr;  // the shared_ptr has already run the deleter
  }
}

void buffer_pool::give_back(std::byte* block, std::size_t capacity) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (kept_ + capacity <= keep_bytes_) {
      free_[capacity].push_back(block);
      kept_ += capacity;
      return;
    }
  } catch (const std::bad_alloc&) {  // no room to remember it: free it
  }
  ::operator delete (block, std::align_val_t{alignment});
}

std::uint64_t buffer_pool::kept_bytes() const {
  const std::lock_guard lock(mutex_);
  return kept_;
}

}  // namespace troupe::net
