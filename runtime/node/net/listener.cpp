#include "runtime/node/net/listener.hpp"

#include <exception>
#include <utility>

namespace troupe::net {

namespace asio = boost::asio;
using boost::system::error_code;

expected<listener::tcp::acceptor, coded_error> listener::bind(asio::io_context& io, const address& where) {
  const std::string name = to_string(where);
  error_code ec;
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(where.host, std::to_string(where.port), tcp::resolver::passive, ec);
  if (ec || found.empty()) return unexpected(coded_error{"bad_address", "[net] cannot resolve " + name + ": " + ec.message()});
  const tcp::endpoint end = *found.begin();
  if (end.address().is_unspecified())
    return unexpected(coded_error{"wildcard_address", "[net] " + name + " means every interface: name the address to listen on"});
  tcp::acceptor made(io);
  made.open(end.protocol(), ec);
  if (!ec) made.set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec) made.bind(end, ec);
  if (!ec) made.listen(asio::socket_base::max_listen_connections, ec);
  if (ec == asio::error::address_in_use) return unexpected(coded_error{"address_in_use", "[net] " + name + " is already in use"});
  if (ec) return unexpected(coded_error{"address_unavailable", "[net] cannot listen on " + name + ": " + ec.message()});
  return made;
}

void listener::start(tcp::acceptor&& bound, std::function<void(tcp::socket&&)> accepted,
                     std::function<void(const std::string&)> log) {
  if (stopped_) return;
  acceptor_ = std::move(bound);
  accepted_ = std::move(accepted);
  log_ = std::move(log);
  accept();
}

void listener::stop() {
  stopped_ = true;
  error_code ignored;
  acceptor_.close(ignored);
  pause_.cancel();
}

void listener::accept() {
  acceptor_.async_accept([this](const error_code& ec, tcp::socket socket) {
    if (stopped_ || ec == asio::error::operation_aborted) return;
    if (ec) {
      // Most likely no file descriptor is free: without a pause this would spin.
      log_("[net] accept failed: " + ec.message());
      pause_.expires_after(std::chrono::milliseconds(50));
      pause_.async_wait([this](const error_code& e) {
        if (!e && !stopped_) accept();
      });
      return;
    }
    try {
      accepted_(std::move(socket));
    } catch (const std::exception& e) {  // out of memory: this connection is lost, the next may succeed
      log_(std::string("[net] accept failed: ") + e.what());
    }
    accept();
  });
}

}  // namespace troupe::net
