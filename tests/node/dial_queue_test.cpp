// Which peers are dialled, and when: the queue as a function of time, and a transport that uses it.
#include "runtime/node/net/dial_queue.hpp"

#include <gtest/gtest.h>

#include "tests/node/net_support.hpp"

namespace troupe::net {
namespace {

using namespace testing;
using dials = std::vector<int>;

class net_dial_queue : public ::testing::Test {
 protected:
  dials begin() { return q_.begin(now_); }
  dial_queue<int> q_{2, 1000ms};
  dial_queue<int>::instant now_ = dial_queue<int>::instant{} + 1h;
};

TEST_F(net_dial_queue, begins_in_order_and_at_most_so_many_at_once) {
  for (const int k : {5, 3, 4, 1, 2}) q_.add(k);
  EXPECT_EQ(begin(), (dials{5, 3}));
  EXPECT_EQ(begin(), dials{});
  q_.over(3);
  EXPECT_EQ(begin(), dials{4});
  q_.over(5);
  q_.over(4);
  EXPECT_EQ(begin(), (dials{1, 2}));
  EXPECT_EQ(q_.next(now_), std::nullopt) << "none waits";
}

TEST_F(net_dial_queue, an_attempt_without_an_answer_delays_the_others_by_a_bounded_time) {
  for (const int k : {1, 2, 3, 4, 5}) q_.add(k);
  EXPECT_EQ(begin(), (dials{1, 2}));
  now_ += 400ms;
  q_.over(1);
  EXPECT_EQ(begin(), dials{3});
  EXPECT_EQ(q_.next(now_), now_ + 600ms) << "2 no longer counts then";
  now_ += 600ms;
  EXPECT_EQ(begin(), dials{4});
  EXPECT_EQ(q_.next(now_), now_ + 400ms) << "then 3";
  now_ += 400ms;
  EXPECT_EQ(begin(), dials{5});
}

TEST_F(net_dial_queue, one_that_is_given_up_while_it_waits_does_not_begin) {
  for (const int k : {1, 2, 3, 4}) q_.add(k);
  EXPECT_EQ(begin(), (dials{1, 2}));
  q_.over(3);
  q_.over(1);
  EXPECT_EQ(begin(), dials{4});
  q_.add(1);  // another attempt
  q_.over(2);
  EXPECT_EQ(begin(), dials{1});
}

// A server that accepts nothing: the kernel completes connections, and no handshake is answered.
class mute_server {
 public:
  mute_server() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    if (::bind(fd_, reinterpret_cast<const sockaddr*>(&at), size) != 0 || ::listen(fd_, 64) != 0 ||
        ::getsockname(fd_, reinterpret_cast<sockaddr*>(&at), &size) != 0)
      throw std::runtime_error("mute_server");
    port = ntohs(at.sin_port);
  }
  ~mute_server() { ::close(fd_); }
  mute_server(const mute_server&) = delete;
  mute_server& operator=(const mute_server&) = delete;
  // Accepts a connection that waits. Returns true if there is one.
  bool accept_one(clock::duration within) {
    pollfd p{fd_, POLLIN, 0};
    if (::poll(&p, 1, static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(within).count())) <= 0) return false;
    const int c = ::accept(fd_, nullptr, nullptr);
    if (c >= 0) held_.push_back(std::unique_ptr<int, closer>(new int(c)));
    return c >= 0;
  }
  std::uint16_t port = 0;

 private:
  struct closer {
    void operator()(int* c) const {
      ::close(*c);
      delete c;
    }
  };
  int fd_;
  std::vector<std::unique_ptr<int, closer>> held_;
};

TEST(net_dials, a_transport_dials_at_most_so_many_peers_at_once) {
  mute_server mute;
  node a("a", [](tcp_options& o) { o.dials_at_once = 2, o.handshake = 1h; });
  for (const char* name : {"x1", "x2", "x3", "x4"}) a.net->connect(name, {"127.0.0.1", mute.port}, 1h);
  node b("b");
  b.listen();
  EXPECT_TRUE(mute.accept_one(10s));
  EXPECT_TRUE(mute.accept_one(10s));
  EXPECT_FALSE(mute.accept_one(0ms)) << "the third waits for its turn";
  b.net->connect("a", {"127.0.0.1", a.listen()}, 10s);
  EXPECT_TRUE(b.wait_up("a")) << "accepted connections do not wait";
  EXPECT_FALSE(mute.accept_one(0ms));
}

TEST(net_dials, time_in_the_queue_does_not_count_as_time_to_connect) {
  mute_server mute;
  node a("a", [](tcp_options&o) { o.dials_at_once = 1, o.handshake = 1h; }), b("b");
  b.listen();
  a.net->connect("x", {"127.0.0.1", mute.port}, 2500ms);
  a.net->connect("b", {"127.0.0.1", b.port}, 2s);
  ASSERT_TRUE(mute.accept_one(10s));
  ASSERT_TRUE(a.wait_down("x", 10s));
  EXPECT_TRUE(a.wait_up("b")) << "its time begins with its turn, which was given after 2.5 s";
  EXPECT_TRUE(a.downs["b"].empty());
}

TEST(net_dials, dialling_a_peer_again_does_not_begin_anew) {
  mute_server mute;
  node a("a", [](tcp_options& o) { o.handshake = 1h; });
  const auto dial = [&] { a.net->connect("x", {"127.0.0.1", mute.port}, 1h); };
  dial();
  ASSERT_TRUE(mute.accept_one(10s));
  for (int i = 0; i < 5; ++i) dial();
  node b("b");
  b.listen();
  a.net->connect("b", {"127.0.0.1", b.port}, 10s);
  ASSERT_TRUE(a.wait_up("b")) << "by then the further dials have been handled";
  EXPECT_FALSE(mute.accept_one(0ms)) << "a handshake on a slow machine would never end";
}

}  // namespace
}  // namespace troupe::net
