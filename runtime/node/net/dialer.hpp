// Reaches one address: resolves, connects, and retries with growing pauses until a deadline. The
// owner gets the socket, and calls again() if that connection fails before the peer is up. I/O
// thread only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "runtime/base/result.hpp"
#include "runtime/node/net/transport.hpp"

namespace troupe::net {

class dialer : public std::enable_shared_from_this<dialer> {
 public:
  using socket = boost::asio::ip::tcp::socket;
  struct events {
    std::function<void(socket&&)> connected;
    std::function<void(const coded_error&)> gave_up;  // "connect_deadline", with the last cause in its message
  };
  dialer(boost::asio::io_context& io, address where, std::chrono::milliseconds within, std::chrono::milliseconds per_attempt,
         events on);

  void start();
  void again(const coded_error& why);  // the attempt failed after connecting
  void stop();                         // no event follows
 private:
  void attempt();
  void connect_to(const boost::asio::ip::tcp::resolver::results_type& where);
  void failed(const boost::system::error_code& ec);

  boost::asio::io_context& io_;
  const address where_;
  const std::chrono::steady_clock::time_point deadline_;
  const std::chrono::milliseconds per_attempt_;
  events on_;
  bool stopped_ = false;
  std::chrono::milliseconds pause_{20};
  coded_error last_{"connect_deadline", "no attempt was answered"};
  boost::asio::steady_timer overall_, step_;
  boost::asio::ip::tcp::resolver resolver_;
  std::optional<socket> socket_;
};

}  // namespace troupe::net
