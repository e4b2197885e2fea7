// The REPL of a running process over a Unix socket in its run folder: `troupe repl RUN`.
//
//   run_socket socket(run_socket_file(folder), backend);   // backend: run_backend.hpp
//   if (!socket.error().empty()) warn(socket.error());     // training goes on without the socket
//
// Protocol: lines that end with '\n'. A request is a JSON object {"line": TEXT, "json": true|false}
// of at most max_run_request bytes; each gets one answer, {"how": "ok"|"failed"|"usage"|"quit",
// "text": TEXT, "next": TEXT}, as repl_reply. A client may send the next request before it has read
// the answer; it is handled afterwards.
//
// Access: the file has mode 0600, and a peer must have the user of this process or be root
// (SO_PEERCRED). Limits: max_run_clients connections, further ones are closed; a client that sends
// a longer line, or does not take an answer within 10 s, is disconnected.
//
// Threads: one of its own, which calls the backend; the destructor ends it and removes the file. If
// a client follows a command then (it asks again until the outcome is there), the destructor waits
// up to 5 s for it: the backend must have the job's last event before.
// Errors: error(); a failing connection ends, the others continue.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "actors/repl/repl.hpp"
#include "runtime/base/result.hpp"

namespace troupe {

inline constexpr std::size_t max_run_request = std::size_t{64} << 10, max_run_clients = 16;

std::filesystem::path run_socket_file(const std::filesystem::path& folder);  // FOLDER/repl.sock

class run_socket {
 public:
  // `backend` must outlive the object. A file that an ended process has left is replaced.
  run_socket(const std::filesystem::path& file, repl_backend& backend);
  ~run_socket();
  run_socket(const run_socket&) = delete;
  run_socket& operator=(const run_socket&) = delete;

  const std::string& error() const;  // why there is no socket; empty: it answers

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

// The client's side. An error if no process answers at the socket.
expected<repl_lines> connect_run(const std::filesystem::path& file, bool json);

// --- the protocol, for tests

struct run_request {
  std::string line;
  bool json = false;
};
std::string to_line(const run_request& r);  // with '\n'
std::string to_line(const repl_reply& r);
std::optional<run_request> read_run_request(std::string_view line);  // nullopt: malformed
std::optional<repl_reply> read_run_reply(std::string_view line);

}  // namespace troupe
