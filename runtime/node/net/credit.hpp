// Credit of a connection: how the window is dealt out, what a frame costs, and the account of who
// owes it.
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

// Of a frame that lends nothing; one that lends is large.
constexpr frame_class class_of(std::uint64_t payload) { return payload <= small_frame ? frame_class::small : frame_class::large; }

// The part of a peer's window that frames of this class may take; both ends compute it.
constexpr std::uint64_t share_of(frame_class c, std::uint64_t window) {
  const std::uint64_t small = window / 8;
  return std::max<std::uint64_t>(c == frame_class::small ? small : window - small, 1);
}

// A frame's price: its payload and something for itself, so that empty frames are not free.
inline constexpr std::uint64_t frame_overhead = 64;
constexpr std::uint64_t frame_cost(std::uint64_t payload) { return payload + frame_overhead; }

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

// Of one connection, by class; reports at a quarter of each part.
using credit_accounts = std::array<std::shared_ptr<credit_account>, frame_classes>;
credit_accounts make_accounts(std::uint64_t window);
std::uint64_t held(const credit_accounts& accounts);

// A payload that lies where its sender has it: no copy, and the same credit as any other. Null when
// memory is out.
std::shared_ptr<std::byte> share_part(const const_part& p, std::shared_ptr<credit_account> account);

}  // namespace troupe::net
