// Credit of a connection: how the window is divided, what a frame costs, and the accounts of
// received frames that are still held.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "runtime/node/net/transport.hpp"

namespace troupe::net {

enum class frame_class : std::uint8_t { large, small };
inline constexpr std::size_t frame_classes = 2;

// Class of a frame without shared buffers. A frame with shared buffers is large.
constexpr frame_class class_of(std::uint64_t payload) { return payload <= small_frame ? frame_class::small : frame_class::large; }

// Bytes of a peer's window that frames of this class may take; both ends compute it.
constexpr std::uint64_t share_of(frame_class c, std::uint64_t window) {
  const std::uint64_t small = window / 8;
  return std::max<std::uint64_t>(c == frame_class::small ? small : window - small, 1);
}

// Cost of a frame in bytes: its payload plus a constant, so that empty frames are not free.
inline constexpr std::uint64_t frame_overhead = 64;
constexpr std::uint64_t frame_cost(std::uint64_t payload) { return payload + frame_overhead; }

// Credit that one connection must return to its peer: a buffer is charged when it is taken, and
// given back when it is dropped. Any thread.
class credit_account {
 public:
  explicit credit_account(std::uint64_t report_at) : report_at_(report_at) {}

  void charge(std::uint64_t bytes);
  void give_back(std::uint64_t bytes);      // any thread; calls the reporter when the returned bytes reach `report_at`
  std::uint64_t collect();                  // bytes given back since the last call
  std::uint64_t held() const;               // charged, not given back
  void on_report(std::function<void()> f);  // an empty function detaches; no report is running once this returns
 private:
  const std::uint64_t report_at_;
  mutable std::mutex mutex_;
  std::uint64_t held_ = 0, returned_ = 0;
  std::function<void()> report_;
};

// The accounts of one connection by class. Each reports at a quarter of its share.
using credit_accounts = std::array<std::shared_ptr<credit_account>, frame_classes>;
credit_accounts make_accounts(std::uint64_t window);
std::uint64_t held(const credit_accounts& accounts);

}  // namespace troupe::net
