// Applies injected faults (line_faults.hpp) to one connection: holds its next steps while traffic
// is dropped, and its received frames while they are delayed. I/O thread only.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "runtime/node/net/line_faults.hpp"
#include "runtime/node/net/transport.hpp"

namespace troupe::net {

class held_line {
 public:
  enum step : std::uint8_t { reading, writing, closing };
  using again = std::function<void()>;

  held_line(boost::asio::io_context& io, std::shared_ptr<const line_faults> faults)
      : faults_(std::move(faults)), lifted_(io), due_(io) {}

  // Returns true if traffic is dropped now. `then` is called when that is over, unless another step
  // of the same kind has replaced it. `owner` is kept alive until then.
  bool holds(step s, const std::shared_ptr<void>& owner, again then) {
    return faults_ && faults_->drops() != line_faults::clock::duration::zero() && hold(s, owner, std::move(then));
  }
  // Returns true if `f` was taken for later delivery; `then` is called when next_due() has a frame.
  bool delays(frame& f, const std::shared_ptr<void>& owner, const again& then) {
    return faults_ && (!late_.empty() || faults_->delays() != line_faults::clock::duration::zero()) && take(f, owner, then);
  }
  std::optional<frame> next_due();
  void forget();  // drops the delayed frames; the connection is closed

 private:
  bool hold(step s, const std::shared_ptr<void>& owner, again then);
  bool take(frame& f, const std::shared_ptr<void>& owner, const again& then);
  void wait_for_end(const std::shared_ptr<void>& owner);
  void wait_for_due(const std::shared_ptr<void>& owner, const again& then);

  struct late_frame {
    line_faults::clock::time_point due;
    frame what;
  };
  const std::shared_ptr<const line_faults> faults_;
  boost::asio::steady_timer lifted_, due_;
  std::array<again, 3> held_;
  bool waits_ = false;
  std::deque<late_frame> late_;
};

}  // namespace troupe::net
