// WebSockets of the server, and the list of open connections. Private to server.cpp and
// web_socket.cpp.
//
// Threads: the server's.
#pragma once

#include <boost/asio/ssl.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/node/http/server.hpp"

namespace troupe::http {

using plain_stream = boost::beast::tcp_stream;
using tls_stream = boost::beast::ssl_stream<boost::beast::tcp_stream>;

// An open connection.
struct connection {
  virtual ~connection() = default;
  virtual void close() = 0;
  virtual void server_ends() {}  // the thread has ended

  std::list<std::shared_ptr<connection>>::iterator at{};
  bool listed = false, is_socket = false;
};

// Open connections; those without an accepted request for the longest time first.
class connection_list {
 public:
  void enter(const std::shared_ptr<connection>& c) {
    c->at = all_.insert(all_.end(), c);
    c->listed = true;
  }
  void leave(connection& c) {
    if (std::exchange(c.listed, false)) all_.erase(c.at);
  }
  void used(connection& c) {
    if (c.listed) all_.splice(all_.end(), all_, c.at);
  }
  std::size_t size() const { return all_.size(); }
  // Removes and closes the first connection that is no WebSocket, or else the first.
  void displace() {
    auto which = all_.begin();
    while (which != all_.end() && (*which)->is_socket) ++which;
    const auto oldest = which == all_.end() ? all_.front() : *which;
    leave(*oldest);
    oldest->close();
  }
  // For the server's destructor.
  void end_all() {
    for (const auto& c : std::exchange(all_, {})) {
      c->listed = false;
      c->server_ends();
    }
  }

 private:
  std::list<std::shared_ptr<connection>> all_;
};

// The request that opens a WebSocket.
struct socket_opening {
  request asked;
  boost::beast::http::request<boost::beast::http::string_body> message;  // the same request, for the handshake
  std::vector<std::pair<std::string, std::string>> headers;              // of the response
};
// Makes the connection of `s` a WebSocket, and enters it into the list. The references must outlive
// it.
void open_web_socket(connection_list& open, const server_limits& l, const socket_route& route, plain_stream&& s,
                     socket_opening&& o);
void open_web_socket(connection_list& open, const server_limits& l, const socket_route& route, tls_stream&& s, socket_opening&& o);

}  // namespace troupe::http
