// Misbehaving exchange clients: they send messages that cannot be decoded, or do not read their
// answers. The daemon disconnects them and serves the others. Also a daemon that claims to be on
// another machine.
#include <cstring>

#include "runtime/exchange/client/frames.hpp"
#include "runtime/exchange/hub/arithmetic.hpp"
#include "runtime/exchange/troupe_exchange.h"
#include "tests/cluster/processes.hpp"
#include "tests/cluster/rude_operator.hpp"

namespace troupe::testing_cluster {
namespace {

using namespace exchange;

class rude_client : public rude_operator {
 public:
  using rude_operator::rude_operator;
  bool send(const exchange::message& m) { return send_frame(to_frame(m)); }
  bool send(net::outgoing_frame&& f) { return send_frame(std::move(f)); }
};

class cluster_exchange_rude : public cluster_test {
 protected:
  void SetUp() override {
    make_cluster(1);
    start("n1");
  }
  void expect_service() {
    const auto address = "127.0.0.1:" + std::to_string(control_port("n1"));
    const auto tls = path("certs");
    const troupe_exchange_options o{sizeof o, address.c_str(), tls.c_str(), "honest", 0, 1, TROUPE_EXCHANGE_AVERAGE, 0, 20000};
    troupe_exchange* x = nullptr;
    ASSERT_EQ(troupe_exchange_open(&o, &x), 0) << troupe_exchange_error_text();
    EXPECT_EQ(troupe_exchange_barrier(x, 20000), 0) << troupe_exchange_error_text();
    EXPECT_EQ(troupe_exchange_close(x), 0);
  }
};

TEST_F(cluster_exchange_rude, a_client_that_sends_undecodable_messages_is_disconnected) {
  const auto bytes = std::make_shared<const std::string>(1000, '\xff');
  for (std::uint16_t type = first_type; is_exchange_type(type); ++type) {
    rude_client c(path("certs"), control_port("n1"));
    net::outgoing_frame f;
    f.type = type;
    f.parts.push_back({bytes->data(), bytes->size(), bytes});
    ASSERT_TRUE(c.send(std::move(f)));
    EXPECT_TRUE(c.let_go()) << type;
  }
  rude_client c(path("certs"), control_port("n1"));
  c.send(exchange::begin{1, collective_op::barrier, 0, 0});  // valid, but the client has not opened a session
  EXPECT_TRUE(c.let_go());
  expect_service();
}

TEST_F(cluster_exchange_rude, a_client_that_does_not_read_its_answers_is_disconnected) {
  rude_client c(path("certs"), control_port("n1"));
  constexpr std::uint64_t count = 500'000;  // 4 MB, four times the limit of unread data
  c.send(open_session{protocol, "lazy", 0, 1, averaging_method::easgd, 0.5});
  c.send(declare{1, "w", element::f64, count});
  ASSERT_TRUE(c.has_frames(2));
  const auto values = make_block(count * 8);
  std::memset(values.get(), 0, count * 8);
  // Each step is answered with 4 MB, so that 2 buffers and 2 pieces are unread after a few steps;
  // 100 steps would be 400 MB.
  for (std::uint64_t call = 2; call < 102; ++call) {
    c.send(exchange::begin{call, collective_op::exchange, 0, 0});
    for (std::uint64_t at = 0; at < count * 8; at += piece_bytes)
      c.send(piece{
          call, at, {values, values.get() + at, static_cast<std::size_t>(std::min<std::uint64_t>(piece_bytes, count * 8 - at))}});
  }
  EXPECT_TRUE(c.let_go());
  EXPECT_TRUE(daemon("n1").wait_log("it does not read its answers", 10s));
  expect_service();
}

// A daemon that answers like one on another machine: it opens sessions and shares memory of a
// different machine id.
class far_daemon {
 public:
  far_daemon(const std::string& tls, const std::string& node, std::uint16_t port) {
    auto o = net::operator_options(tls);  // for the cluster's name
    if (!o) throw std::runtime_error(o.error().message);
    o->node = node;
    o->certificate = tls + "/" + node + ".pem";
    o->key = tls + "/" + node + ".key";
    o->operators = true;
    net::callbacks c;
    c.on_frame = [this](const std::string& peer, net::frame&& f) -> expected<void, coded_error> {
      answer_to(peer, f);
      return {};
    };
    auto made = net::make_tcp_transport(std::move(*o), std::move(c));
    if (!made) throw std::runtime_error(made.error().message);
    net_ = std::move(*made);
    if (auto l = net_->listen({"127.0.0.1", port}); !l) throw std::runtime_error(l.error().message);
  }
  bool given_back() {
    std::unique_lock guard(lock_);
    return changed_.wait_for(guard, 20s, [&] { return given_back_; });
  }

 private:
  void answer_to(const std::string& peer, const net::frame& f) {
    const auto m = from_frame(f);
    if (!m) return;
    if (std::holds_alternative<open_session>(*m)) net_->send(peer, to_frame(answer{}));
    if (const auto* s = std::get_if<share>(&*m))
      net_->send(peer, to_frame(shared_at{s->call, 1, contents::empty, 1, 3, 4, "11111111-2222-3333-4444-555555555555"}));
    if (const auto* g = std::get_if<filled>(&*m)) {
      const std::lock_guard guard(lock_);
      given_back_ = g->id == 1 && g->now == contents::empty;
      changed_.notify_all();
    }
  }
  std::mutex lock_;
  std::condition_variable changed_;
  bool given_back_ = false;
  std::unique_ptr<net::transport> net_;
};

TEST_F(cluster_exchange_rude, shared_memory_of_another_machine_is_refused_and_returned_as_empty) {
  const auto port = free_port();
  const auto tls = path("certs");
  far_daemon far(tls, "n1", port);
  const auto address = "127.0.0.1:" + std::to_string(port);
  const troupe_exchange_options o{sizeof o, address.c_str(), tls.c_str(), "s", 0, 1, TROUPE_EXCHANGE_AVERAGE, 0, 20000};
  troupe_exchange* x = nullptr;
  ASSERT_EQ(troupe_exchange_open(&o, &x), 0) << troupe_exchange_error_text();
  const float v[2] = {1, 2};
  std::int32_t a = -1;
  EXPECT_EQ(troupe_exchange_share(x, "w", TROUPE_EXCHANGE_FLOAT32, 2, v, 20000, &a), TROUPE_EXCHANGE_NOT_LOCAL);
  EXPECT_STREQ(troupe_exchange_error_name(TROUPE_EXCHANGE_NOT_LOCAL), "not_local");
  EXPECT_NE(std::string(troupe_exchange_error_text()).find("another machine"), std::string::npos) << troupe_exchange_error_text();
  EXPECT_TRUE(far.given_back()) << "other ranks must not wait for this one to fill the array";
  EXPECT_EQ(troupe_exchange_close(x), 0);
}

}  // namespace
}  // namespace troupe::testing_cluster
