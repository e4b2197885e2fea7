// Where received payloads live: blocks aligned to 64 bytes, kept for reuse in size classes, so that a steady stream neither
// allocates nor touches fresh pages. A block finds its way back by its deleter, from any thread, also after the transport is gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace troupe::net {

// What one connection owes its peer. Buffers charge it when taken and return to it when dropped.
class credit_account {
 public:
  explicit credit_account(std::uint64_t report_at) : report_at_(report_at) {}

  void charge(std::uint64_t bytes);
  void give_back(std::uint64_t bytes);      // any thread; calls the reporter when `report_at` bytes have come together
  std::uint64_t collect();                  // returned since the last collect
  std::uint64_t held() const;               // charged, not given back
  void on_report(std::function<void()> f);  // an empty one detaches; after that returns, none is running
 private:
  const std::uint64_t report_at_;
  mutable std::mutex mutex_;
  std::uint64_t held_ = 0, returned_ = 0;
  std::function<void()> report_;
};

// A frame's price: its payload and something for itself, so that empty frames are not free.
constexpr std::uint64_t frame_cost(std::uint64_t payload) { return payload + 64; }

class buffer_pool : public std::enable_shared_from_this<buffer_pool> {
 public:
  static constexpr std::size_t alignment = 64;

  static std::shared_ptr<buffer_pool> make(std::uint64_t keep_bytes);
  buffer_pool(const buffer_pool&) = delete;
  buffer_pool& operator=(const buffer_pool&) = delete;
  ~buffer_pool();

  // Charges `account` (if any) frame_cost(bytes). Null when memory is out.
  std::shared_ptr<std::byte> take(std::size_t bytes, std::shared_ptr<credit_account> account);
  std::uint64_t kept_bytes() const;

  // Four classes to each power of two: at most a quarter is wasted.
  static std::size_t class_size(std::size_t bytes);

 private:
  friend struct block_deleter;
  explicit buffer_pool(std::uint64_t keep_bytes) : keep_bytes_(keep_bytes) {}
  void give_back(std::byte* block, std::size_t capacity) noexcept;

  const std::uint64_t keep_bytes_;
  mutable std::mutex mutex_;
  std::uint64_t kept_ = 0;
  std::unordered_map<std::size_t, std::vector<std::byte*>> free_;
};

}  // namespace troupe::net
