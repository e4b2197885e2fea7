// Log lines about unauthenticated peers, limited per host (line_limit.hpp): such a peer may try
// thousands of times a second, each time from another port. I/O thread only.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <string>
#include <utility>

#include "runtime/node/net/connection.hpp"
#include "runtime/node/net/line_limit.hpp"

namespace troupe::net {

class stranger_log {
 public:
  stranger_log(boost::asio::io_context& io, std::function<void(const std::string&)> log) : timer_(io), log_(std::move(log)) {}

  void write(const connection& c, const std::string& line) {
    const bool waiting = !lines_.empty();
    const auto who = c.dialed() ? c.remote() : c.remote().substr(0, c.remote().rfind(':'));
    if (const auto text = lines_.write(who, line, std::chrono::steady_clock::now())) log_(*text);
    if (!waiting) log_left_out();
  }
  void stop() {
    stopped_ = true;
    timer_.cancel();
  }

 private:
  void log_left_out() {
    timer_.expires_after(std::chrono::minutes(1));
    timer_.async_wait([this](const boost::system::error_code& ec) {
      if (ec || stopped_) return;
      for (const auto& text : lines_.due(std::chrono::steady_clock::now())) log_("[net] not accepted: " + text);
      if (!lines_.empty()) log_left_out();
    });
  }

  boost::asio::steady_timer timer_;
  line_limit lines_;
  const std::function<void(const std::string&)> log_;
  bool stopped_ = false;
};

}  // namespace troupe::net
