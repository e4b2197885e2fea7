// An arena in a single mapped region outside the heap, with first-fit allocation. For tests of
// pools that use an arena.
#pragma once

#include <sys/mman.h>

#include <map>
#include <mutex>
#include <stdexcept>

#include "ops/arena.hpp"

namespace troupe::test {

struct mapped_region final : memory_region {
  explicit mapped_region(std::size_t n, memory_kind k = memory_kind::shared) {
    void* at = ::mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::runtime_error("mmap");
    base = static_cast<std::byte*>(at);
    bytes = n;
    kind = k;
    id = "mapped";
  }
  ~mapped_region() override { ::munmap(base, bytes); }
};

class mapped_arena final : public arena {
 public:
  explicit mapped_arena(std::size_t bytes) : region_(std::make_shared<mapped_region>(bytes)) { free_[0] = bytes; }

  slab take(std::size_t bytes) override {
    const std::size_t n = (bytes + 63) / 64 * 64;
    const std::lock_guard lock(mutex_);
    for (auto [at, room] : free_) {
      if (room < n) continue;
      free_.erase(at);
      if (room > n) free_[at + n] = room - n;
      ++taken_;
      return {region_->base + at, n, region_};
    }
    return {};
  }
  void give_back(const slab& s) noexcept override {
    const std::lock_guard lock(mutex_);
    auto at = free_.emplace(static_cast<std::size_t>(s.data - region_->base), s.bytes).first;
    --taken_;
    if (const auto next = std::next(at); next != free_.end() && at->first + at->second == next->first) {
      at->second += next->second;
      free_.erase(next);
    }
    if (at == free_.begin()) return;
    if (const auto before = std::prev(at); before->first + before->second == at->first) {
      before->second += at->second;
      free_.erase(at);
    }
  }

  const std::shared_ptr<mapped_region>& region() const { return region_; }
  std::size_t taken() const {
    const std::lock_guard lock(mutex_);
    return taken_;
  }
  bool whole() const {  // all slabs were returned
    const std::lock_guard lock(mutex_);
    return free_.size() == 1 && free_.begin()->second == region_->bytes;
  }

 private:
  const std::shared_ptr<mapped_region> region_;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_;  // by offset
  std::size_t taken_ = 0;
};

}  // namespace troupe::test
