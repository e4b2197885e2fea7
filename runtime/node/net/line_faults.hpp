// Faults injected into a node's connections. The creator of a transport may pass one
// (tcp_options::faults) and make it drop or delay traffic for a time. Any thread. While no fault is
// injected, the cost is one atomic load per read and per write.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

namespace troupe::net {

class line_faults {
 public:
  using clock = std::chrono::steady_clock;

  // Drops all traffic in both directions until then, as if all packets were lost: received bytes
  // are not read, and writes wait. A second call never shortens the first.
  void drop(clock::time_point until) { prolong(drop_until_, until); }
  // Delivers received frames later by this time, in order.
  void delay(clock::duration by, clock::time_point until) {
    delay_ = by.count();
    prolong(delay_until_, until);
  }

  // Remaining time of the drop; 0: none. Reads the clock only while a fault may be active.
  clock::duration drops() const {
    const auto until = drop_until_.load(std::memory_order_relaxed);
    return until == 0 ? clock::duration::zero() : left(until);
  }
  clock::duration delays() const {
    const auto until = delay_until_.load(std::memory_order_relaxed);
    return until == 0 || left(until) == clock::duration::zero() ? clock::duration::zero() : clock::duration(delay_.load());
  }

 private:
  using count = std::atomic<clock::rep>;
  static clock::duration left(clock::rep until) {
    return std::max(clock::duration::zero(), clock::duration(until) - clock::now().time_since_epoch());
  }
  static void prolong(count& to, clock::time_point until) {
    const auto n = until.time_since_epoch().count();
    auto was = to.load();
    while (was < n && !to.compare_exchange_weak(was, n)) {
    }
  }

  count drop_until_{0}, delay_until_{0}, delay_{0};
};

}  // namespace troupe::net
