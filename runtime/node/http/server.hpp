// A small HTTP/1.1 server for pages about this process: /metrics for Prometheus.
//
//   GET and HEAD only, exact paths, no request bodies, keep-alive. A handler makes the whole
//   response; it runs on the server's thread and must not wait for other threads.
//
// Access: on a loopback address plain HTTP, and only to requests that name this machine in `Host`,
// so that a web page in a user's browser cannot read it under another name (DNS rebinding). On any
// other address TLS with `certificate`, and a bearer token: open() refuses to serve without them.
// A token that is given on a loopback address is required there, too.
//
// Limits: a request header has at most `max_header` bytes and arrives within `deadline`; a response
// is taken within `deadline`; a connection without a request ends after `idle`. Of more than
// `max_connections` connections the one that has been without an accepted request for the longest
// time is closed, so idle or hostile clients cannot keep others out.
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
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/node/net/transport.hpp"

namespace troupe::http {

struct request {
  std::string method;       // "GET" or "HEAD"
  std::string path, query;  // of "/metrics?a=1": "/metrics" and "a=1", as they were sent
};
struct response {
  unsigned status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};
using handler = std::function<response(const request&)>;

struct server_options {
  net::address where;  // port 0: any free port
  std::map<std::string, handler, std::less<>> routes;
  std::filesystem::path certificate, key;  // PEM, used if the address is not loopback
  std::string token;                       // empty: none
  std::size_t max_header = std::size_t{8} << 10, max_connections = 64;
  std::chrono::milliseconds deadline{10'000}, idle{120'000};
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

class server {
 public:
  // Listens and serves. Errors: those of transport::listen(), "insecure" (not a loopback address,
  // and no certificate or no token), "certificate_unreadable".
  static expected<std::unique_ptr<server>, coded_error> open(server_options o);
  ~server();  // closes all connections and joins the thread
  server(const server&) = delete;
  server& operator=(const server&) = delete;

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
