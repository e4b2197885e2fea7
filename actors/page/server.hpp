// Serves the browser page of a process: the files of web/dist, the state of a backend over a
// WebSocket (feed.hpp), and run folders. docs/page.md describes it for users.
//
//   GET  /              the page; without a session a form (runtime/node/http/sessions.hpp)
//   GET  /app.js ...    its files
//   GET  /api/session   {}: there is a session
//   GET  /api/runs      runs.hpp; ?offset=N&limit=N
//   GET  /api/run?name=FOLDER
//   GET  /api/help      the commands, as `help` of a JSON session
//   WS   /api/feed
//   POST /login, /logout
//
// Threads: the server's, which calls the backend; the members may be called from any thread.
// Errors: values.
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "actors/page/feed.hpp"
#include "actors/page/rights.hpp"
#include "runtime/base/result.hpp"
#include "runtime/node/http/server.hpp"
#include "runtime/node/http/sessions.hpp"

namespace troupe {

struct page_options {
  net::address where;                          // port 0: any free port
  std::filesystem::path ca, certificate, key;  // of the node, for TLS if the address is not loopback; empty: none
  std::filesystem::path token_file;            // created if it is missing
  std::filesystem::path runs;                  // folder of runs; empty: none
  page_role role = page_role::operates;
  std::string title;                                 // of the form for the token: "Troupe: lab"
  std::function<void(const std::string& line)> log;  // may be empty
};

class page_server {
 public:
  // `backend` must allow everything, answer from any thread without waiting for actors, and outlive
  // the object. Errors: those of http::server::open and http::page_token.
  static expected<std::unique_ptr<page_server>, coded_error> open(const page_options& o, repl_backend& backend);
  page_server(const page_server&) = delete;
  page_server& operator=(const page_server&) = delete;

  std::string url() const { return server_->url("/"); }
  // Reads the certificates again.
  expected<void, coded_error> reload_certificates();
  http::server_counts counts() const { return server_->counts(); }
  // Sends the newest state and events to all pages. Returns when the system has taken them, after
  // at most `patience`: a page that does not read misses them. For the end of the backend's job.
  void finish(std::chrono::milliseconds patience = std::chrono::seconds(1));

 private:
  page_server(const page_options& o, std::string token, repl_backend& backend)
      : ca_(o.ca), certificate_(o.certificate), sessions_(std::move(token), o.where.host, o.title), feed_(backend, o.role) {}
  void read_expiries();
  void add_routes(http::server_options& h, const page_options& o);
  void tick();

  const std::filesystem::path ca_, certificate_;
  http::sessions sessions_;
  page_feed feed_;
  std::uint64_t ticks_ = 0;
  std::mutex lock_;  // protects the two below
  bool finishing_ = false, finished_ = false;
  std::condition_variable changed_;
  std::unique_ptr<http::server> server_;  // last: its thread uses the members above
};

}  // namespace troupe
