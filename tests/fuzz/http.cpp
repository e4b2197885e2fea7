// Fuzz target: the requests of an HTTP client. A server listens in this process; each input is sent
// over a connection of its own.
#include "runtime/node/http/access.hpp"
#include "runtime/node/http/server.hpp"
#include "runtime/node/http/sessions.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/http_client.hpp"

namespace troupe::fuzz {
namespace {

using namespace testing_http;

http::server& fuzzed_server() {
  static const auto server = [] {
    http::server_options o;
    o.where = {"127.0.0.1", 0};
    o.token = "0123456789abcdef";
    o.limits.deadline = std::chrono::milliseconds(2000);
    o.routes["/page"] = [](const http::request& r) { return http::response{200, "text/plain", r.method + r.path + r.query}; };
    o.posts["/form"] = [](const http::request& r) { return http::response{200, "text/plain", http::form_value(r.body, "a")}; };
    auto opened = http::server::open(std::move(o));
    must(opened.has_value(), "the server does not open");
    return std::move(*opened);
  }();
  return *server;
}

void read_request(input in) {
  const auto bytes = text(in);
  (void)http::names_this_machine(bytes, "n1");
  must(http::form_value(bytes, "a").size() <= bytes.size(), "a value is longer than its form");
  static const http::sessions page("0123456789abcdef0123456789abcdef", "n1", "page");
  must(page.refusal({"GET", "/", "", "127.0.0.1", "", bytes, bytes}, 1000).has_value(), "a session without the token");
  must(!http::bears(bytes, "0123456789abcdef") || bytes.size() == 23, "a token of another length is accepted");
  // A closed connection occupies its pair of ports for a minute, so addresses of clients vary.
  static unsigned count = 0;
  const auto block = ++count / 1000;
  const auto from = "127.1." + std::to_string(block / 250 % 250) + "." + std::to_string(1 + block % 250);
  http_client c(fuzzed_server().port(), "127.0.0.1", from);
  c.send(bytes);
  c.end_sending();
  must(c.closed(std::chrono::seconds(20)), "the connection does not end");
  must(c.unread().empty() || c.unread().starts_with("HTTP/1.1 "), "the answer is no HTTP");
  if (c.unread().starts_with("HTTP/1.1 200")) must(bytes.find("0123456789abcdef") != std::string::npos, "a page without the token");
}

std::vector<std::string> sound_request() {
  const std::string token = "Authorization: Bearer 0123456789abcdef\r\n";
  return {get_request("/page?a=1", token),
          get_request("/page", token + "Connection: close\r\n") + get_request("/"),
          "HEAD /page HTTP/1.1\r\nHost: localhost\r\n" + token + "\r\n",
          get_request("/page", token + "Transfer-Encoding: chunked\r\n") + "5\r\nhello\r\n0\r\n\r\n",
          "POST /form HTTP/1.1\r\nHost: 127.0.0.1\r\n" + token + "Content-Length: 7\r\n\r\na=1%20+",
          "a=1; b=2; troupe-01234567=2000.abc.0123",
          "127.0.0.1:9101",
          "Bearer 0123456789abcdef"};
}

const entry http_entry({"http", read_request, sound_request});

}  // namespace
}  // namespace troupe::fuzz
