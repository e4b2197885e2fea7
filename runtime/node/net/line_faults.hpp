// Faults of a node's connections that a person has injected: whoever makes a transport may give it
// one (tcp_options::faults), and have it drop or delay for a time. Any thread. While nothing is
// injected it costs a load for each read and each write.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

namespace troupe::net {

class line_faults {
 public:
  using clock = std::chrono::steady_clock;

  // Nothing passes, either way, until then: what comes is left where it is, what goes waits, as
  // where all packets are lost. A second one never shortens the first.
  void drop(clock::time_point until) { prolong(drop_until_, until); }
  // Frames that come are handed on so much later, in their order.
  void delay(clock::duration by, clock::time_point until) {
    delay_ = by.count();
    prolong(delay_until_, until);
  }

  // How long it drops yet; 0: it does not. Asks for the time only where it may matter.
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
