// Listens on one address and passes accepted sockets to its owner. A shortage of file descriptors
// does not stop it. I/O thread only, except bind().
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/node/net/transport.hpp"

namespace troupe::net {

class listener {
 public:
  using tcp = boost::asio::ip::tcp;

  explicit listener(boost::asio::io_context& io) : acceptor_(io), pause_(io) {}

  // Opens the port, any thread; errors as transport::listen().
  static expected<tcp::acceptor, coded_error> bind(boost::asio::io_context& io, const address& where);

  void start(tcp::acceptor&& bound, std::function<void(tcp::socket&&)> accepted, std::function<void(const std::string&)> log);
  void stop();

 private:
  void accept();

  tcp::acceptor acceptor_;
  boost::asio::steady_timer pause_;
  std::function<void(tcp::socket&&)> accepted_;
  std::function<void(const std::string&)> log_;
  bool stopped_ = false;
};

}  // namespace troupe::net
