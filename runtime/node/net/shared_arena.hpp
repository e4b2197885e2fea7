// Memory of this process that peers on this machine may read: an arena in one sealed memfd. Also
// the reader's side, a peer's arena mapped read-only. Its contents can be sent as (offset, bytes)
// instead of as bytes (memory_sharing.hpp).
//
// The size of an arena is address space, not memory: pages are allocated when they are touched, and
// returned to the system with the slab.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "ops/arena.hpp"
#include "runtime/base/result.hpp"
#include "runtime/node/memory_file/memory_file.hpp"

namespace troupe::net {

// The location of a process's arena, as its hello states it.
struct memory_at {
  memory_file::place where;
  std::uint64_t token = 0;  // stored in its first page
  std::uint64_t bytes = 0;  // of the arena; 0: none
};

// Any thread.
class shared_arena final : public arena, public std::enable_shared_from_this<shared_arena> {
 public:
  // Errors: "no_memory", with the system's reason.
  static expected<std::shared_ptr<shared_arena>, coded_error> make(std::uint64_t bytes);
  ~shared_arena() override;
  shared_arena(const shared_arena&) = delete;
  shared_arena& operator=(const shared_arena&) = delete;

  slab take(std::size_t bytes) override;
  void give_back(const slab& s) noexcept override;

  memory_at where() const;
  const memory_region* region() const { return region_.get(); }
  std::uint64_t taken() const;  // bytes of slabs in use

 private:
  shared_arena() = default;

  memory_file::descriptor file_;
  std::uint64_t token_ = 0;
  std::shared_ptr<const memory_region> region_;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_;  // length by offset; adjacent ranges are merged
  std::uint64_t taken_ = 0;
};

// A peer's arena. It stays readable after the peer has ended.
class borrowed_memory {
 public:
  // Errors: "not_shared", with the reason.
  static expected<std::shared_ptr<const borrowed_memory>, coded_error> map(const memory_at& at);
  ~borrowed_memory();
  borrowed_memory(const borrowed_memory&) = delete;
  borrowed_memory& operator=(const borrowed_memory&) = delete;

  const std::byte* base() const;
  std::uint64_t bytes() const { return bytes_; }

 private:
  borrowed_memory(void* at, std::uint64_t bytes) : at_(at), bytes_(bytes) {}
  void* at_;
  std::uint64_t bytes_;
};

}  // namespace troupe::net
