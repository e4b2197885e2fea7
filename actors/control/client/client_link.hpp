// An operator's connection to one daemon: mutual TLS, control messages, blocking calls with
// deadlines.
// Threads: one.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "actors/control/client/client.hpp"
#include "runtime/base/result.hpp"
#include "runtime/cluster/messages.hpp"

namespace troupe {

class client_link {
 public:
  // Errors: "certificate_missing" and other errors of the client's own files, "unreachable" (names
  // address and cause), "bad_address".
  static expected<std::unique_ptr<client_link>, coded_error> open(const cluster_address& where, std::chrono::milliseconds within);
  ~client_link();
  client_link(const client_link&) = delete;
  client_link& operator=(const client_link&) = delete;

  // Errors: "too_large" (the connection stays usable), "lost".
  expected<void, coded_error> send(const control::message& m);
  // The next message; nullopt after `within`, or when the connection is lost and all received
  // messages are read.
  std::optional<control::message> receive(std::chrono::milliseconds within);
  bool lost() const;
  std::string why_lost() const;       // a sentence with the daemon's name
  const std::string& daemon() const;  // the node's name

 private:
  struct impl;
  explicit client_link(std::unique_ptr<impl> p);
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe
