// Reaches one address: resolves, connects, and retries with growing pauses until a deadline. Each
// attempt waits for its turn (dial_queue.hpp); that time does not count. The owner gets the socket,
// and calls again() if that connection fails before the peer is up. I/O thread only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "runtime/base/result.hpp"
#include "runtime/node/net/dial_queue.hpp"
#include "runtime/node/net/transport.hpp"

namespace troupe::net {

class dialer;

// The turns of a transport's dialers.
class dial_turns {
 public:
  dial_turns(boost::asio::io_context& io, std::size_t at_once, std::chrono::milliseconds patience)
      : queue_(at_once, patience), timer_(io) {}
  void add(const std::shared_ptr<dialer>& d);   // d->go() follows
  void over(const std::shared_ptr<dialer>& d);  // its attempt, or its wait
  void stop();

 private:
  void give();

  dial_queue<std::shared_ptr<dialer>> queue_;
  boost::asio::steady_timer timer_;
  bool stopped_ = false;
};

class dialer : public std::enable_shared_from_this<dialer> {
 public:
  using socket = boost::asio::ip::tcp::socket;
  struct events {
    std::function<void(socket&&)> connected;
    std::function<void(const coded_error&)> gave_up;  // "connect_deadline", with the last cause in its message
  };
  dialer(boost::asio::io_context& io, dial_turns& turns, address where, std::chrono::milliseconds within,
         std::chrono::milliseconds per_attempt, events on);

  void start();
  const address& where() const { return where_; }
  // Moves the deadline to `within` from now, if that is later.
  void extend(std::chrono::milliseconds within);
  void go();                           // it is this dialer's turn
  void again(const coded_error& why);  // the attempt failed after connecting
  void stop();                         // no event follows
 private:
  void watch_deadline();
  void wait_for_turn();
  void attempt();
  void connect_to(const boost::asio::ip::tcp::resolver::results_type& where);
  void failed(const boost::system::error_code& ec);

  boost::asio::io_context& io_;
  dial_turns& turns_;
  const address where_;
  std::chrono::steady_clock::time_point deadline_;
  std::optional<std::chrono::steady_clock::time_point> waits_since_;
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
