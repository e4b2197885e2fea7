// A small HTTP/1.1 server for pages about this process: /metrics for Prometheus, and the browser
// page.
//
//   GET and HEAD of exact paths; POST and WebSockets where the options name a path; keep-alive. A
//   handler makes the whole response; it runs on the server's thread and must not wait for other
//   threads. A later_handler may: it only starts the work.
//
// Access: on a loopback address plain HTTP, and only to requests that name this machine in `Host`,
// so that a web page in a user's browser cannot read it under another name (DNS rebinding). An
// `Origin`, which browsers send, must be the server's own: pages of other sites get status 403. On
// any other address TLS with `certificate`, and a bearer token: open() refuses to serve without
// them. A token that is given on a loopback address is required there, too. A `gate` takes the
// place of all these checks of requests, not of TLS.
//
// Limits: a request header has at most `max_header` bytes, a body at most `max_body`; each arrives
// within `deadline`. The bodies that are being read or answered have at most `max_bodies` bytes
// together; a request whose body does not fit gets status 503. A response is taken within
// `deadline`; a connection without a request ends
// after `idle`. Of more than `max_connections` connections the one that has been without an
// accepted request for the longest time is closed, WebSockets last, so idle or hostile clients
// cannot keep others out. A WebSocket takes messages of at most `max_message` bytes, one after the
// other: while more than `max_message` bytes wait to be sent, none is read. It is closed if a
// message to it is not taken within `deadline`, if more than `max_queued` bytes wait, or if its
// client does not answer pings for `idle`.
//
// Threads: one of its own, for connections, handlers and `tick`. All members may be called from any
// thread. Errors: values; an exception of a handler becomes status 500.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/node/net/transport.hpp"

namespace troupe::http {

struct request {
  std::string method;                                       // "GET", "HEAD" or "POST"
  std::string path, query;                                  // of "/metrics?a=1": "/metrics" and "a=1", as they were sent
  std::string host, origin, authorization, cookie, type{};  // of the header; empty: missing. type: of the body
  std::string body{};                                       // of POST; empty while `gate` looks at the request
  bool secure = false;                                      // came over TLS
  bool opens_socket = false;                                // asks for a WebSocket
};
struct response {
  unsigned status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};  // further ones
};
using handler = std::function<response(const request&)>;
using routes = std::map<std::string, handler, std::less<>>;
// Answers a POST later: calls `reply` once, on any thread, before the server's destructor begins. A
// client that has gone gets nothing.
using later_handler = std::function<void(request&&, std::function<void(response&&)> reply)>;

// A WebSocket that a client has opened. Only for the server's thread. Its members do nothing after
// it has been closed. The server must outlive all pointers to it.
class socket {
 public:
  virtual ~socket() = default;
  virtual void send(std::shared_ptr<const std::string> text) = 0;
  virtual std::size_t queued() const = 0;  // bytes that the system has not taken yet
  virtual void close() = 0;
};
// Callbacks of the WebSockets of a path. `closed` is called once for each that was opened, by the
// server's destructor for those that are open then.
struct socket_route {
  std::function<void(const std::shared_ptr<socket>&, const request&)> opened;
  std::function<void(const std::shared_ptr<socket>&, const std::string& text)> received;
  std::function<void(const std::shared_ptr<socket>&)> closed;
};

struct server_limits {
  std::size_t max_header = std::size_t{8} << 10, max_body = std::size_t{4} << 10, max_connections = 64;
  std::size_t max_bodies = std::size_t{256} << 20;
  std::size_t max_message = std::size_t{64} << 10, max_queued = std::size_t{8} << 20;
  std::chrono::milliseconds deadline{10'000}, idle{120'000};
};

struct server_options {
  net::address where;  // port 0: any free port
  http::routes routes;
  http::routes posts = {};
  std::map<std::string, later_handler, std::less<>> later = {};  // POST
  std::map<std::string, socket_route, std::less<>> sockets = {};
  std::filesystem::path certificate, key;  // PEM, used if the address is not loopback
  std::string token;                       // empty: none
  // Sees every request before its path is looked up, also that of a WebSocket. A response refuses
  // the request.
  std::function<std::optional<response>(const request&)> gate = {};
  std::vector<std::pair<std::string, std::string>> headers = {};  // of all responses
  std::string not_found = "there is no such page";                // text of status 404
  server_limits limits = {};
  std::function<void()> tick;  // called every `tick_every`; may be empty
  std::chrono::milliseconds tick_every{1000};
  std::function<void(const std::string& line)> log;  // may be empty
};

struct server_counts {
  std::uint64_t connections = 0;  // accepted
  std::uint64_t served = 0;       // responses with a status below 400
  std::uint64_t refused = 0;      // responses with another status
  std::uint64_t broken = 0;       // connections that ended by a deadline or without a complete request
  std::uint64_t displaced = 0;    // connections closed because there were too many
};

// Whether a server can listen at this address now. Errors: those of transport::listen().
expected<void, coded_error> check_free(const net::address& where);

class server {
 public:
  // Listens and serves. Errors: those of transport::listen(), "insecure" (not a loopback address,
  // and no certificate, or neither token nor gate), "certificate_unreadable".
  static expected<std::unique_ptr<server>, coded_error> open(server_options o);
  ~server();  // closes all connections and joins the thread
  server(const server&) = delete;
  server& operator=(const server&) = delete;

  // Ends the thread: no handler is called any more. Replies that come later are dropped.
  void stop();

  std::uint16_t port() const;
  std::string url(const std::string& path) const;  // "http://127.0.0.1:9101/metrics"
  server_counts counts() const;
  // Reads certificate and key again, for new connections. On an error nothing changes.
  expected<void, coded_error> reload_certificates();

 private:
  struct impl;
  explicit server(std::unique_ptr<impl> p);
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe::http
