// Who may use a page that shows data and takes commands: the holder of its token.
//
// A browser cannot send a token with the requests for a page and its WebSocket, except in the
// address, which ends up in histories and logs. So a request without a session gets status 401 with
// a form, which posts the token to /login; the answer is a cookie with a session. Programs send the
// token as a bearer token instead.
//
// A session is "EXPIRY.NONCE.MAC", with an HMAC-SHA256 whose key is the token. The server stores no
// sessions: one of them lasts until it expires, also over a restart of the server, and ends when
// the token changes. The name of the cookie is derived from the token, because browsers send the
// cookies of one host to all of its ports: two pages on one machine do not replace each other's.
//
// Every request must name this machine in `Host` (DNS rebinding), and its `Origin`, if it has one,
// must be that host. A WebSocket or a POST that a cookie allows needs an Origin: any web page can
// make a browser send them.
//
// Errors: values; a refusal is a response. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/node/http/server.hpp"

namespace troupe::http {

inline constexpr std::size_t shortest_page_token = 32;  // characters; 128 bits as hexadecimal digits

// The token of a page, from a file as read_token() reads it. A missing file is created, of mode
// 0600, with 256 random bits. Errors: those of read_token, "token_unwritable".
expected<std::string, coded_error> page_token(const std::filesystem::path& file);

class sessions {
 public:
  // Seconds since 1970.
  using clock = std::int64_t;
  static constexpr clock lifetime = 12 * 60 * 60;
  // Wrong tokens within a minute; the response to further ones is 429. The right token always logs
  // in: a token has at least 128 random bits, which no number of attempts finds.
  static constexpr std::size_t max_failures = 10;

  // `host`: the name under which the server listens. `title`, plain text: what the form is for.
  sessions(std::string token, std::string host, std::string title);

  // Refuses a request (401, 403), or nullopt. The requests to log in need no session.
  std::optional<response> refusal(const request& r, clock now) const;
  // The response to the form's POST to /login: 303 to / with a cookie; of a wrong token 401, or 429
  // after too many.
  response log_in(const request& r, clock now);
  // The response to a POST to /logout: 303 to /, and the browser forgets the session.
  response log_out(const request& r) const;

  // The value of Content-Security-Policy: everything from this server, no inline script.
  static const std::string& content_policy();

 private:
  std::string made(clock expiry, const std::string& nonce) const;
  bool has_session(const request& r, clock now) const;
  response wrong_token(clock now);
  response form(unsigned status, const std::string& note) const;
  std::string cookie(const request& r, const std::string& value, clock age) const;

  std::string token_, host_, title_, name_;
  std::deque<clock> failures_;
};

}  // namespace troupe::http
