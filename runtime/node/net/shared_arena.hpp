// Memory of this process that peers on this machine may read: an arena in one sealed memfd, and the
// other end, where a peer's arena is mapped for reading. What lies in it can be sent as (offset,
// bytes) instead of as bytes (memory_sharing.hpp).
//
// Its size is a range of addresses, not memory: pages are taken as they are touched, and given to
// the system again with the slab.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "ops/arena.hpp"
#include "runtime/node/memory_file/memory_file.hpp"
#include "runtime/node/net/error.hpp"

namespace troupe::net {

// Where a process has its arena, as it says in its hello.
struct memory_at {
  memory_file::place where;
  std::uint64_t token = 0;  // that lies in it
  std::uint64_t bytes = 0;  // of the arena; zero: there is none
};

// Any thread.
class shared_arena final : public arena, public std::enable_shared_from_this<shared_arena> {
 public:
  // Errors: "no_memory", with the system's reason.
  static expected<std::shared_ptr<shared_arena>> make(std::uint64_t bytes);
  ~shared_arena() override;
  shared_arena(const shared_arena&) = delete;
  shared_arena& operator=(const shared_arena&) = delete;

  slab take(std::size_t bytes) override;
  void give_back(const slab& s) noexcept override;

  memory_at where() const;
  const memory_region* region() const { return region_.get(); }
  std::uint64_t taken() const;  // bytes of slabs that are out

 private:
  shared_arena() = default;

  memory_file::descriptor file_;
  std::uint64_t token_ = 0;
  std::shared_ptr<const memory_region> region_;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_;  // length by offset; neighbours are one
  std::uint64_t taken_ = 0;
};

// A peer's arena. It stays readable after the peer has died.
class borrowed_memory {
 public:
  // Errors: "not_shared", with a sentence.
  static expected<std::shared_ptr<const borrowed_memory>> map(const memory_at& at);
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
