// The HTTP server: pages, and clients that are slow, wrong or hostile.
#include "runtime/node/http/server.hpp"

#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <openssl/ssl.h>

#include <list>
#include <thread>

#include "runtime/node/http/access.hpp"
#include "tests/node/net_support.hpp"
#include "tests/web_socket_client.hpp"

namespace troupe::http {
namespace {

using namespace std::chrono_literals;
using testing_http::body_of;
using testing_http::get_request;
using testing_http::http_client;
using testing_http::http_get;
using testing_http::status_of;

class http_server : public ::testing::Test {
 protected:
  http_server() {
    options_.where = {"127.0.0.1", 0};
    options_.routes["/page"] = [this](const request& r) {
      ++made_;
      return response{200, "text/plain; charset=utf-8", r.method + " [" + r.query + "]\n"};
    };
    options_.routes["/long"] = [](const request&) { return response{200, "text/plain", std::string(4 << 20, 'x')}; };
    options_.routes["/bad"] = [](const request&) -> response { throw std::runtime_error("no page"); };
    options_.log = [this](const std::string& line) { log_ += line + "\n"; };
  }
  void open() {
    auto s = server::open(options_);
    ASSERT_TRUE(s) << s.error().message;
    server_ = std::move(*s);
  }
  std::uint16_t port() const { return server_->port(); }
  // A new client still gets its page.
  void serves() const { EXPECT_EQ(body_of(http_get(port(), "/page")), "GET []\n"); }
  template <class F>
  void wait_for(F done) const {
    const auto until = std::chrono::steady_clock::now() + 20s;
    while (!done() && std::chrono::steady_clock::now() < until) serves();
    EXPECT_TRUE(done());
  }

  server_options options_;
  std::atomic<int> made_{0};
  std::string log_;  // read after the server has ended
  std::unique_ptr<server> server_;
};

TEST_F(http_server, serves_a_page_with_length_type_and_query) {
  open();
  const auto r = http_get(port(), "/page?a=1&b=%20");
  EXPECT_EQ(status_of(r), 200);
  EXPECT_EQ(body_of(r), "GET [a=1&b=%20]\n");
  EXPECT_NE(r.find("Content-Type: text/plain; charset=utf-8\r\n"), std::string::npos) << r;
  EXPECT_NE(r.find("Content-Length: 16\r\n"), std::string::npos) << r;
  EXPECT_EQ(server_->url("/page"), "http://127.0.0.1:" + std::to_string(port()) + "/page");
}

TEST_F(http_server, answers_head_with_the_length_of_the_page_and_no_body) {
  open();
  http_client c(port());
  c.send("HEAD /page HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const auto r = c.response(true);
  EXPECT_EQ(status_of(r), 200);
  EXPECT_NE(r.find("Content-Length: 8\r\n"), std::string::npos) << r;
  EXPECT_TRUE(c.unread().empty());
  c.send(get_request("/page"));
  EXPECT_EQ(body_of(c.response()), "GET []\n") << "the connection stays";
}

TEST_F(http_server, keeps_a_connection_and_answers_requests_in_order) {
  open();
  http_client c(port());
  std::string all;
  for (int i = 0; i < 20; ++i) all += get_request("/page?" + std::to_string(i));
  c.send(all);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(body_of(c.response()), "GET [" + std::to_string(i) + "]\n");
  EXPECT_EQ(server_->counts().connections, 1u);
}

TEST_F(http_server, closes_a_connection_when_the_client_wants_that) {
  open();
  http_client c(port());
  c.send(get_request("/page", "Connection: close\r\n"));
  EXPECT_EQ(status_of(c.response()), 200);
  EXPECT_TRUE(c.closed());
  http_client old(port());
  old.send("GET /page HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n");
  EXPECT_EQ(status_of(old.response()), 200);
  EXPECT_TRUE(old.closed());
}

TEST_F(http_server, refuses_other_methods_paths_bodies_and_hosts) {
  open();
  const auto status = [&](const std::string& bytes) {
    http_client c(port());
    c.send(bytes);
    return status_of(c.response());
  };
  EXPECT_EQ(status(get_request("/other")), 404);
  EXPECT_EQ(status(get_request("/page/")), 404);
  EXPECT_EQ(status(get_request("/../etc/passwd")), 404);
  EXPECT_EQ(status("POST /page HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n"), 405);
  EXPECT_EQ(status("DELETE /page HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"), 405);
  EXPECT_EQ(status(get_request("/page", "Content-Length: 5\r\n") + "hello"), 413);
  EXPECT_EQ(status(get_request("/page", "Transfer-Encoding: chunked\r\n")), 413);
  EXPECT_EQ(status("GET /page HTTP/1.1\r\nHost: evil.example\r\n\r\n"), 403) << "another name for this machine";
  EXPECT_EQ(status("GET /page HTTP/1.1\r\n\r\n"), 403);
  EXPECT_EQ(status("GET /page HTTP/1.1\r\nHost: [::1]:9101\r\n\r\n"), 200);
  EXPECT_EQ(made_, 1);
  EXPECT_EQ(status(get_request("/bad")), 500);
  serves();
  server_.reset();
  EXPECT_NE(log_.find("/bad: no page"), std::string::npos);
}

TEST_F(http_server, garbage_and_too_long_headers_end_only_their_connection) {
  open();
  const std::string zeros(3000, '\0'), hello = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";  // of TLS
  for (const auto& bytes : {zeros, hello, std::string("\r\n\r\n\r\n\r\n"), std::string("GET\r\n\r\n"),
                            std::string("GET /page HTTP/9.9\r\n\r\n"), std::string("GET /page HTTP/1.1\r\nbad header\r\n\r\n"),
                            get_request("/page", "Content-Length: 99999999999999999999999\r\n"), get_request("/pa\x01ge")}) {
    http_client c(port());
    c.send(bytes);
    c.end_sending();
    const auto r = c.response();
    EXPECT_TRUE(r.empty() || status_of(r) >= 400) << r;
    EXPECT_TRUE(c.closed());
  }
  http_client one(port());
  one.send("GET /page HTTP/1.1\r\nA: " + std::string(100'000, 'a'));
  EXPECT_EQ(status_of(one.response()), 431);
  EXPECT_TRUE(one.closed());
  http_client many(port());
  std::string lines;
  for (int i = 0; i < 5000; ++i) lines += "h" + std::to_string(i) + ": v\r\n";
  many.send(get_request("/page", lines));
  EXPECT_EQ(status_of(many.response()), 431);
  serves();
}

TEST_F(http_server, a_slow_client_is_closed_at_its_deadline) {
  options_.limits.deadline = 200ms;
  open();
  http_client silent(port()), slow(port());
  slow.send("GET /page HTTP/1.1\r\nHost: 127");
  EXPECT_TRUE(silent.closed());
  EXPECT_TRUE(slow.closed());
  wait_for([&] { return server_->counts().broken >= 2; });
}

TEST_F(http_server, a_client_that_drips_bytes_does_not_extend_its_deadline) {
  options_.limits.deadline = 300ms;
  open();
  http_client drip(port());
  const auto until = std::chrono::steady_clock::now() + 20s;
  bool open_still = true;
  for (std::size_t i = 0; open_still && std::chrono::steady_clock::now() < until; ++i) {
    open_still = drip.send(i == 0 ? "GET /page HTTP/1.1\r\nA: " : "a") && !drip.closed(20ms);
  }
  EXPECT_FALSE(open_still);
}

TEST_F(http_server, a_client_that_does_not_read_its_page_is_closed) {
  options_.limits.deadline = 200ms;
  open();
  http_client c(port());
  const int small = 4096;
  ::setsockopt(c.descriptor(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  c.send(get_request("/long") + get_request("/long"));
  wait_for([&] { return server_->counts().broken == 1; });
}

TEST_F(http_server, an_idle_connection_ends) {
  options_.limits.idle = 100ms;
  open();
  http_client c(port());
  c.send(get_request("/page"));
  EXPECT_EQ(status_of(c.response()), 200);
  EXPECT_TRUE(c.closed());
}

TEST_F(http_server, idle_connections_do_not_keep_a_reader_out) {
  options_.limits.max_connections = 8;
  open();
  http_client reader(port());
  reader.send(get_request("/page"));
  EXPECT_EQ(status_of(reader.response()), 200);
  std::list<http_client> idle;
  for (std::uint64_t i = 0; i < 100; ++i) {
    idle.emplace_back(port());
    idle.back().send("GET /page HTTP/1.1\r\n");  // and nothing more
    // The server accepts it before the next one: a backlog of connections would displace the
    // reader.
    while (server_->counts().connections < i + 2) std::this_thread::yield();
    if (i % 5 == 4) {
      reader.send(get_request("/page"));
      ASSERT_EQ(status_of(reader.response()), 200) << "a connection that is in use is not displaced, i = " << i;
    }
  }
  EXPECT_GE(server_->counts().displaced, 90u);
  serves();
}

TEST_F(http_server, ticks_while_it_serves) {
  std::atomic<int> ticks{0};
  options_.tick_every = 1ms;
  options_.tick = [&] { ++ticks; };
  open();
  wait_for([&] { return ticks > 5; });
  server_.reset();  // before `ticks` ends
}

TEST_F(http_server, ends_while_connections_are_open) {
  open();
  http_client idle(port()), half(port());
  half.send("GET /pa");
  serves();
  server_.reset();
  EXPECT_TRUE(idle.closed());
  EXPECT_TRUE(half.closed());
}

TEST_F(http_server, a_taken_port_and_a_wildcard_address_are_errors) {
  open();
  auto other = options_;
  other.where.port = port();
  const auto taken = server::open(other);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, "address_in_use");
  other.where = {"0.0.0.0", 0};
  const auto wild = server::open(other);
  ASSERT_FALSE(wild);
  EXPECT_EQ(wild.error().code, "wildcard_address");
}

// --- tokens

TEST_F(http_server, only_the_whole_token_opens_a_page) {
  options_.token = "0123456789abcdef";
  open();
  const auto with = [&](const std::string& value) { return status_of(http_get(port(), "/page", value)); };
  EXPECT_EQ(with("Authorization: Bearer 0123456789abcdef\r\n"), 200);
  EXPECT_EQ(with("Authorization: bearer 0123456789abcdef\r\n"), 200);
  EXPECT_EQ(with(""), 401);
  EXPECT_EQ(with("Authorization: Bearer 0123456789abcdeF\r\n"), 401);
  EXPECT_EQ(with("Authorization: Bearer 0123456789abcde\r\n"), 401);
  EXPECT_EQ(with("Authorization: Bearer 0123456789abcdef0\r\n"), 401);
  EXPECT_EQ(with("Authorization: Bearer \r\n"), 401);
  EXPECT_EQ(with("Authorization: Basic 0123456789abcdef\r\n"), 401);
  EXPECT_NE(http_get(port(), "/other").find("WWW-Authenticate: Bearer"), std::string::npos) << "paths are not told without it";
  EXPECT_EQ(made_, 2);
}

// --- TLS, on an address that other machines could reach

std::string public_address() {
  ifaddrs* all = nullptr;
  std::string found;
  if (::getifaddrs(&all) != 0) return found;
  for (const auto* i = all; i; i = i->ifa_next) {
    if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET) continue;
    char text[INET_ADDRSTRLEN] = {};
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr, text, sizeof text);
    if (!is_loopback(text)) found = text;
  }
  ::freeifaddrs(all);
  return found;
}

class http_server_tls : public http_server {
 protected:
  void SetUp() override {
    host_ = public_address();
    if (host_.empty()) GTEST_SKIP() << "this machine has only loopback addresses";
    options_.where = {host_, 0};
  }
  void secure() {
    options_.certificate = net::testing::certificates() / "good" / "a.pem";
    options_.key = net::testing::certificates() / "good" / "a.key";
    options_.token = "0123456789abcdef";
  }
  // The response over TLS; empty if the handshake fails. Sends `then` when the response has
  // `after`.
  std::string get_secure(const std::string& bytes, const std::string& after = {}, std::string then = {}) const {
    http_client c(port(), host_);
    SSL_CTX* context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_load_verify_locations(context, (net::testing::certificates() / "good" / "ca.pem").c_str(), nullptr);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    SSL* s = SSL_new(context);
    SSL_set_fd(s, c.descriptor());
    std::string text;
    if (SSL_connect(s) == 1) {
      SSL_write(s, bytes.data(), static_cast<int>(bytes.size()));
      char buffer[4096];
      for (int n = 0; (n = SSL_read(s, buffer, sizeof buffer)) > 0;) {
        text.append(buffer, static_cast<std::size_t>(n));
        if (then.empty() || text.find(after) == std::string::npos) continue;
        SSL_write(s, then.data(), static_cast<int>(then.size()));
        then.clear();
      }
    }
    SSL_free(s);
    SSL_CTX_free(context);
    return text;
  }

  std::string host_;
};

TEST_F(http_server_tls, is_refused_without_certificate_or_token) {
  for (const bool token : {false, true}) {
    auto o = options_;
    if (token) o.token = "0123456789abcdef";
    const auto s = server::open(o);
    ASSERT_FALSE(s);
    EXPECT_EQ(s.error().code, "insecure");
    EXPECT_NE(s.error().message.find("bearer token"), std::string::npos);
  }
}

TEST_F(http_server_tls, serves_over_tls_to_clients_with_the_token) {
  secure();
  open();
  const std::string close = "Connection: close\r\n";
  EXPECT_EQ(body_of(get_secure(get_request("/page", close + "Authorization: Bearer 0123456789abcdef\r\n"))), "GET []\n");
  EXPECT_EQ(status_of(get_secure(get_request("/page", close))), 401);
  EXPECT_TRUE(server_->url("/page").starts_with("https://" + host_ + ":"));
}

TEST_F(http_server_tls, plain_requests_and_garbage_instead_of_a_handshake_end_only_their_connection) {
  secure();
  options_.limits.deadline = 300ms;
  open();
  http_client plain(port(), host_), silent(port(), host_);
  plain.send(get_request("/page", "Authorization: Bearer 0123456789abcdef\r\n"));
  EXPECT_TRUE(plain.closed());
  EXPECT_EQ(plain.unread().find("GET []"), std::string::npos);
  EXPECT_TRUE(silent.closed());
  EXPECT_EQ(made_, 0);
  EXPECT_EQ(status_of(get_secure(get_request("/page", "Connection: close\r\nAuthorization: Bearer 0123456789abcdef\r\n"))), 200);
}

TEST_F(http_server_tls, opens_web_sockets) {
  secure();
  std::atomic<bool> secure_request{false};
  options_.sockets["/echo"] = {[&](const auto& s, const request& r) {
                                 secure_request = r.secure;
                                 s->send(std::make_shared<const std::string>("hello"));
                               },
                               [](const auto& s, const std::string& text) { s->send(std::make_shared<const std::string>(text)); },
                               [](const auto&) {}};
  open();
  // After "hello" the client sends a text and its end; the server answers both and closes.
  const auto all = get_secure(testing_http::socket_request("/echo", "Authorization: Bearer 0123456789abcdef\r\n"), "hello",
                              testing_http::socket_frame("again") + testing_http::socket_frame("", 0x88));
  EXPECT_EQ(status_of(all), 101);
  EXPECT_NE(all.find("hello"), std::string::npos);
  EXPECT_NE(all.find("again"), std::string::npos);
  EXPECT_TRUE(secure_request);
  EXPECT_EQ(status_of(get_secure(testing_http::socket_request("/echo"))), 401);
  server_.reset();  // before secure_request ends
}

TEST_F(http_server_tls, reads_its_certificate_again) {
  secure();
  open();
  EXPECT_TRUE(server_->reload_certificates());
  EXPECT_EQ(status_of(get_secure(get_request("/page", "Connection: close\r\n"))), 401);
}

}  // namespace
}  // namespace troupe::http
