// Detects that this daemon was suspended (SIGSTOP, a laptop's lid, a paused virtual machine): its
// ticks stop. Peers close a connection that is silent for 4 s, so the ends of their connections
// arrive together, soon after the suspension. A value; the caller supplies the time.
#pragma once

#include <chrono>
#include <optional>

namespace troupe::control {

class suspension_clock {
 public:
  using instant = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds missed{3};  // without a tick: suspended
  static constexpr std::chrono::seconds within{5};  // for how long a suspension explains ends of connections

  void tick(instant now) {
    if (missing(now)) ended_ = past{now, now - ticked_};
    ticked_ = now;
  }
  // How long this daemon was suspended. Nullopt if it was not, or if that ended longer ago than
  // `within`.
  std::optional<std::chrono::seconds> suspended(instant now) const {
    if (missing(now)) return std::chrono::duration_cast<std::chrono::seconds>(now - ticked_);
    if (ended_ && now - ended_->at < within) return std::chrono::duration_cast<std::chrono::seconds>(ended_->length);
    return std::nullopt;
  }

 private:
  struct past {
    instant at{};
    std::chrono::steady_clock::duration length{};
  };
  bool missing(instant now) const { return ticked_ != instant{} && now - ticked_ > missed; }

  instant ticked_{};           // the last tick; instant{}: none yet
  std::optional<past> ended_;  // the last suspension that a tick has noticed
};

}  // namespace troupe::control
