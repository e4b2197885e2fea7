// A peer that is cut off may read its shared buffers until its process ends. While such a peer
// holds any, checks twice a second whether it has ended. I/O thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <utility>

#include "runtime/node/net/memory_sharing.hpp"

namespace troupe::net {

class shared_buffer_sweeper {
 public:
  // `what` is null if no memory is shared.
  shared_buffer_sweeper(boost::asio::io_context& io, std::shared_ptr<memory_sharing> what) : timer_(io), what_(std::move(what)) {}

  void look() {
    if (!what_ || waits_ || over_ || !what_->sweep()) return;
    waits_ = true;
    timer_.expires_after(std::chrono::milliseconds(500));
    timer_.async_wait([this](const boost::system::error_code& ec) {
      waits_ = false;
      if (!ec) look();
    });
  }
  void stop() {
    over_ = true;
    timer_.cancel();
  }

 private:
  boost::asio::steady_timer timer_;
  const std::shared_ptr<memory_sharing> what_;
  bool waits_ = false, over_ = false;
};

}  // namespace troupe::net
