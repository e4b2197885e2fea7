// The HTTP server beyond GET: gates, POST with a bounded body, WebSockets with bounded messages.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/node/http/server.hpp"
#include "tests/web_socket_client.hpp"

namespace troupe::http {
namespace {

using namespace std::chrono_literals;
using namespace testing_http;

class http_sockets : public ::testing::Test {
 protected:
  http_sockets() {
    options_.where = {"127.0.0.1", 0};
    options_.routes["/page"] = [](const request&) { return response{200, "text/plain", "page", {{"X-More", "yes"}}}; };
    options_.posts["/form"] = [](const request& r) { return response{200, "text/plain", r.type + "|" + r.body}; };
    options_.headers = {{"X-All", "all"}};
    options_.limits.max_body = 64;
    options_.limits.max_message = 1000;
    options_.sockets["/echo"] = {[this](const auto& s, const request& r) { opened(s, r); },
                                 [this](const auto& s, const std::string& text) { received(s, text); },
                                 [this](const auto&) { ++closed_; }};
  }
  void opened(const std::shared_ptr<socket>& s, const request& r) {
    ++opened_;
    s->send(text("hello " + r.path));
  }
  void received(const std::shared_ptr<socket>& s, const std::string& sent) {
    ++received_;
    if (sent == "close") return s->close();
    if (sent.starts_with("much ")) {
      const auto big = text(std::string(std::stoul(sent.substr(5)), 'x'));
      for (int i = 0; i < 4; ++i) s->send(big);
      return;
    }
    s->send(text(sent));
  }
  static std::shared_ptr<const std::string> text(std::string t) { return std::make_shared<const std::string>(std::move(t)); }
  void open() {
    auto s = server::open(options_);
    ASSERT_TRUE(s) << s.error().message;
    server_ = std::move(*s);
  }
  std::uint16_t port() const { return server_->port(); }
  int status(const std::string& bytes) const {
    http_client c(port());
    c.send(bytes);
    return status_of(c.response());
  }
  static std::string post(const std::string& path, const std::string& body, const std::string& more = {}) {
    return "POST " + path +
           " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/x\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
           more + "\r\n" + body;
  }
  template <class F>
  static bool soon(F done) {
    const auto until = std::chrono::steady_clock::now() + 20s;
    while (!done() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    return done();
  }

  server_options options_;
  std::atomic<int> opened_{0}, received_{0}, closed_{0};
  std::unique_ptr<server> server_;  // last
};

TEST_F(http_sockets, post_passes_a_bounded_body_to_its_handler) {
  open();
  http_client c(port());
  c.send(post("/form", "a=1") + post("/form", "") + get_request("/page"));
  EXPECT_EQ(body_of(c.response()), "text/x|a=1");
  EXPECT_EQ(body_of(c.response()), "text/x|");
  EXPECT_EQ(body_of(c.response()), "page") << "the connection stays";
  EXPECT_EQ(status(post("/form", std::string(64, 'b'))), 200);
  EXPECT_EQ(status(post("/form", std::string(65, 'b'))), 413);
  EXPECT_EQ(status(post("/form", std::string(1 << 20, 'b'))), 413);
  EXPECT_EQ(status(post("/form", "", "Transfer-Encoding: chunked\r\n")), 400);
  EXPECT_EQ(status("POST /form HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"), 411);
  EXPECT_EQ(status(post("/page", "")), 405);
  EXPECT_EQ(status(post("/page", "a")), 405) << "only paths for POST take a body";
  EXPECT_EQ(status(post("/none", "a")), 404);
  EXPECT_EQ(status(post("/none", "")), 404);
  EXPECT_EQ(status(get_request("/form")), 405);
}

TEST_F(http_sockets, a_body_that_does_not_arrive_ends_the_connection_at_its_deadline) {
  options_.limits.deadline = 200ms;
  open();
  http_client c(port());
  c.send("POST /form HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_TRUE(c.closed());
}

TEST_F(http_sockets, responses_have_the_headers_of_the_options_and_their_own) {
  open();
  const auto r = http_get(port(), "/page");
  EXPECT_NE(r.find("X-All: all\r\n"), std::string::npos) << r;
  EXPECT_NE(r.find("X-More: yes\r\n"), std::string::npos) << r;
  EXPECT_NE(http_get(port(), "/none").find("X-All: all\r\n"), std::string::npos);
  http_client c(port());
  c.send(socket_request("/echo"));
  EXPECT_NE(c.response().find("X-All: all\r\n"), std::string::npos);
}

TEST_F(http_sockets, a_gate_sees_every_request_and_may_refuse_it) {
  std::mutex lock;
  std::vector<std::string> seen;
  options_.gate = [&](const request& r) -> std::optional<response> {
    std::lock_guard guard(lock);
    seen.push_back(r.method + " " + r.path + " " + r.host + " " + r.origin + " " + r.cookie + (r.opens_socket ? " ws" : ""));
    if (r.cookie == "good") return std::nullopt;
    return response{401, "text/plain", "no"};
  };
  open();
  EXPECT_EQ(status(get_request("/page")), 401);
  EXPECT_EQ(status(get_request("/none")), 401);
  EXPECT_EQ(status(post("/form", "a=1")), 401);
  EXPECT_EQ(status(post("/none", "a=1")), 401);
  EXPECT_EQ(status("DELETE /page HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"), 401);
  EXPECT_EQ(status(socket_request("/echo")), 401);
  EXPECT_EQ(opened_, 0);
  EXPECT_EQ(status(get_request("/page", "Cookie: good\r\n")), 200);
  EXPECT_EQ(web_socket_client(port(), "/echo", "Cookie: good\r\nOrigin: http://x\r\n").status, 101);
  EXPECT_EQ(seen.at(0), "GET /page 127.0.0.1  ");
  EXPECT_EQ(seen.back(), "GET /echo 127.0.0.1 http://x good ws");
}

TEST_F(http_sockets, a_socket_echoes_texts_of_any_size_within_the_limit) {
  open();
  auto client = std::make_unique<web_socket_client>(port(), "/echo");
  auto& c = *client;
  ASSERT_EQ(c.status, 101);
  EXPECT_EQ(c.receive(), "hello /echo");
  for (const std::size_t n : {0u, 1u, 125u, 126u, 1000u}) {
    c.send(std::string(n, 'a'));
    EXPECT_EQ(c.receive(), std::string(n, 'a'));
  }
  for (int i = 0; i < 100; ++i) c.send(std::to_string(i));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(c.receive(), std::to_string(i)) << "in order";
  c.send(std::string(1001, 'a'));
  EXPECT_EQ(c.receive(), std::nullopt) << "too long: the connection ends";
  client.reset();
  EXPECT_TRUE(soon([&] { return closed_ == 1; }));
  EXPECT_EQ(status(get_request("/page")), 200);
}

TEST_F(http_sockets, other_paths_and_requests_open_no_socket) {
  open();
  EXPECT_EQ(web_socket_client(port(), "/page").status, 200) << "a page answers as a page";
  EXPECT_EQ(web_socket_client(port(), "/none").status, 404);
  EXPECT_EQ(status(get_request("/echo")), 400);
  EXPECT_EQ(status(socket_request("/echo") + socket_frame("early")), 400);
  EXPECT_EQ(status("GET /echo HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"), 400);
  EXPECT_EQ(opened_, 0);
}

TEST_F(http_sockets, broken_frames_end_only_their_connection) {
  open();
  web_socket_client good(port(), "/echo");
  EXPECT_EQ(good.receive(), "hello /echo");
  const std::string unmasked = "\x81\x02hi", odd = socket_frame("x", 0x8f), reserved = socket_frame("x", 0xf1);
  const std::string endless = std::string("\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff") + "1234";
  for (const auto& bytes : {unmasked, odd, reserved, endless, socket_frame("\xff\xfe"), socket_frame("", 0x88)}) {
    web_socket_client c(port(), "/echo");
    EXPECT_EQ(c.receive(), "hello /echo");
    c.http.send(bytes);
    EXPECT_EQ(c.receive(), std::nullopt);
    EXPECT_TRUE(c.http.closed());
  }
  good.send("still here");
  EXPECT_EQ(good.receive(), "still here");
  EXPECT_TRUE(soon([&] { return closed_ == 6; }));
}

TEST_F(http_sockets, a_server_closes_a_socket) {
  open();
  web_socket_client c(port(), "/echo");
  c.receive();
  c.send("close");
  EXPECT_EQ(c.receive(), std::nullopt);
  EXPECT_TRUE(soon([&] { return closed_ == 1; }));
}

TEST_F(http_sockets, a_client_that_does_not_read_is_closed_when_too_much_waits_or_at_the_deadline) {
  options_.limits.max_queued = 16 << 20;
  options_.limits.deadline = 300ms;
  open();
  web_socket_client greedy(port(), "/echo"), slow(port(), "/echo");
  greedy.send("much 8000000");  // four times
  EXPECT_TRUE(soon([&] { return closed_ == 1; }));
  slow.send("much 4000000");
  EXPECT_TRUE(soon([&] { return closed_ == 2; }));
  EXPECT_EQ(opened_, 2);
}

TEST_F(http_sockets, requests_wait_while_answers_are_not_taken) {
  options_.limits.max_queued = 64 << 20;
  open();
  web_socket_client c(port(), "/echo");
  c.receive();
  c.send("much 8000000");
  for (int i = 0; i < 50; ++i) c.send("x");
  EXPECT_TRUE(soon([&] { return received_ >= 1; }));
  std::this_thread::sleep_for(50ms);  // the server would have read them by now
  EXPECT_EQ(received_, 1);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(c.receive().value_or("").size(), 8'000'000u);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(c.receive(), "x");
}

TEST_F(http_sockets, a_client_that_is_silent_and_does_not_answer_pings_is_closed) {
  options_.limits.idle = 200ms;
  open();
  web_socket_client c(port(), "/echo");
  EXPECT_EQ(c.receive(), "hello /echo");
  EXPECT_TRUE(soon([&] { return closed_ == 1; }));
}

TEST_F(http_sockets, sockets_outlive_a_flood_of_other_connections) {
  options_.limits.max_connections = 8;
  open();
  web_socket_client c(port(), "/echo");
  c.receive();
  std::vector<std::unique_ptr<http_client>> flood;
  for (std::uint64_t i = 0; i < 50; ++i) {
    flood.push_back(std::make_unique<http_client>(port()));
    ASSERT_TRUE(soon([&] { return server_->counts().connections >= i + 2; }));
  }
  c.send("here");
  EXPECT_EQ(c.receive(), "here");
  EXPECT_GE(server_->counts().displaced, 42u);
}

TEST_F(http_sockets, the_server_ends_while_sockets_are_open) {
  open();
  web_socket_client c(port(), "/echo");
  c.receive();
  server_.reset();
  EXPECT_EQ(closed_, 1);
  EXPECT_EQ(c.receive(), std::nullopt);
}

}  // namespace
}  // namespace troupe::http
