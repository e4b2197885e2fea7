// A transport whose certificates change while it is up: new pairs, and revocations.
#include "runtime/node/pki/authority.hpp"
#include "tests/node/net_support.hpp"

namespace troupe::net {
namespace {

using testing::node;
using testing::temporary_directory;
using namespace std::chrono_literals;

class net_certificates : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto made = make_cluster_certificates(dir_, "troop", {{"a", {"127.0.0.1"}}, {"b", {"127.0.0.1"}}, {"c", {"127.0.0.1"}}});
    ASSERT_TRUE(made) << made.error().message;
  }
  std::unique_ptr<node> start(const std::string& name) {
    auto n = std::make_unique<node>(name, [&](tcp_options& o) {
      o.ca = dir_ / "ca.pem", o.certificate = dir_ / (name + ".pem"), o.key = dir_ / (name + ".key");
    });
    n->listen();
    return n;
  }
  static bool met(node& x, node& y, const std::string& of_y) {
    x.net->connect(of_y, {"127.0.0.1", y.port}, 10s);
    return x.wait_up(of_y);
  }
  temporary_directory parent_;
  std::filesystem::path dir_ = parent_.path() / "certs";
};

TEST_F(net_certificates, revocation_ends_the_peers_connection_and_refuses_its_next_one) {
  auto a = start("a"), b = start("b"), c = start("c");
  ASSERT_TRUE(met(*b, *a, "a"));
  ASSERT_TRUE(met(*c, *a, "a"));
  ASSERT_TRUE(a->wait_up("b"));
  ASSERT_TRUE(a->wait_up("c"));
  ASSERT_TRUE(revoke_certificates(dir_, "b"));
  const auto done = a->net->reload_certificates();
  ASSERT_TRUE(done) << done.error().message;
  ASSERT_TRUE(a->wait_down("b", 5s));
  EXPECT_EQ(a->downs["b"][0].code, "certificate_revoked");
  ASSERT_TRUE(b->wait_down("a", 5s));
  b->net->connect("a", {"127.0.0.1", a->port}, 10s);
  EXPECT_TRUE(a->wait_log("certificate_refused: [tls] the peer's certificate: certificate revoked", 5s));
  EXPECT_EQ(b->ups["a"].size(), 1u);
  EXPECT_TRUE(a->downs["c"].empty()) << "not revoked: stays up";
  ASSERT_TRUE(c->net->send("a", testing::frame_of(testing::pattern(1000, 1))));
  EXPECT_TRUE(a->wait_frames(1));
}

TEST_F(net_certificates, a_revoked_peer_is_refused_when_it_is_dialled) {
  auto b = start("b");
  ASSERT_TRUE(revoke_certificates(dir_, "b"));
  auto a = start("a");
  a->net->connect("b", {"127.0.0.1", b->port}, 10s);
  ASSERT_TRUE(a->wait_down("b", 5s));
  EXPECT_EQ(a->downs["b"][0].code, "certificate_refused") << a->downs["b"][0].message;
  EXPECT_EQ(b->net->reload_certificates().error().code, "certificate_revoked")
      << "its certificate is revoked: reload fails and changes nothing";
}

TEST_F(net_certificates, reload_uses_a_new_pair_and_keeps_connections_that_are_up) {
  auto a = start("a"), b = start("b"), c = start("c");
  ASSERT_TRUE(met(*b, *a, "a"));
  ASSERT_TRUE(renew_certificate(dir_, "a", true));
  ASSERT_TRUE(a->net->reload_certificates());
  ASSERT_TRUE(c->net->reload_certificates()) << "c knows now that the former pair is revoked";
  ASSERT_TRUE(met(*c, *a, "a")) << "a presents its new certificate";
  EXPECT_TRUE(b->downs["a"].empty());
  ASSERT_TRUE(b->net->send("a", testing::frame_of(testing::pattern(1000, 1))));
  EXPECT_TRUE(a->wait_frames(1));
  EXPECT_TRUE(a->downs["b"].empty());
}

TEST_F(net_certificates, reload_changes_nothing_when_a_file_cannot_be_read) {
  auto a = start("a"), b = start("b");
  std::filesystem::rename(dir_ / "b.key", dir_ / "a.key");
  EXPECT_EQ(a->net->reload_certificates().error().code, "key_mismatch");
  std::filesystem::remove(dir_ / "a.key");
  EXPECT_EQ(a->net->reload_certificates().error().code, "certificate_missing");
  ASSERT_TRUE(met(*b, *a, "a")) << "the former certificate is still used";
}

TEST_F(net_certificates, on_proved_reports_the_role_in_the_peers_certificate) {
  ASSERT_TRUE(add_operator_certificate(dir_, "alice", certificate_role::watch));
  std::map<std::string, certificate_role> proved;
  std::mutex lock;
  tcp_options o;
  o.cluster = "troop", o.node = "a", o.operators = true;
  o.ca = dir_ / "ca.pem", o.certificate = dir_ / "a.pem", o.key = dir_ / "a.key";
  callbacks on;
  on.on_proved = [&](const std::string& peer, certificate_role role) {
    const std::lock_guard guard(lock);
    proved[peer] = role;
  };
  auto a = make_tcp_transport(o, on);
  ASSERT_TRUE(a) << a.error().message;
  const auto port = (*a)->listen({"127.0.0.1", 0});
  ASSERT_TRUE(port);
  const auto session = [&](const std::string& name, const std::filesystem::path& folder) {
    return std::make_unique<node>(name, [&](tcp_options& t) {
      t.ca = dir_ / "ca.pem", t.certificate = folder / "client.pem", t.key = folder / "client.key";
    });
  };
  auto admin = session("client.x", dir_), alice = session("client.alice.x", dir_ / "client.alice");
  auto b = start("b");
  for (auto* n : {admin.get(), alice.get(), b.get()}) {
    n->net->connect("a", {"127.0.0.1", *port}, 10s);
    ASSERT_TRUE(n->wait_up("a"));
  }
  {
    const std::lock_guard guard(lock);
    EXPECT_EQ(proved["client.x"], certificate_role::admin);
    EXPECT_EQ(proved["client.alice.x"], certificate_role::watch);
    EXPECT_EQ(proved["b"], certificate_role::node);
  }
  // Names that alice's certificate does not allow: another client's, a session of the client
  // without a name, her client without a session, a node's.
  for (const std::string name : {"client.bob.x", "client.x2", "client.alice", "b"}) {
    testing::raw_client c(*port);
    ASSERT_TRUE(c.handshake(dir_ / "client.alice" / "client"));
    ASSERT_TRUE(c.greet(name, [](hello& h) { h.wanted = "a"; }));
    EXPECT_TRUE(c.closed_within(1s)) << name;
  }
  (*a)->close();
  EXPECT_EQ(proved.size(), 3u);
}

TEST_F(net_certificates, client_sessions_are_limited_and_the_last_are_for_admins) {
  ASSERT_TRUE(add_operator_certificate(dir_, "alice", certificate_role::watch));
  node a("a", [&](tcp_options& o) {
    o.operators = true, o.max_operators = 16;
    o.ca = dir_ / "ca.pem", o.certificate = dir_ / "a.pem", o.key = dir_ / "a.key";
  });
  a.listen();
  const auto session = [&](const std::string& name, const std::filesystem::path& folder) {
    auto n = std::make_unique<node>(name, [&](tcp_options& t) {
      t.ca = dir_ / "ca.pem", t.certificate = folder / "client.pem", t.key = folder / "client.key";
    });
    n->net->connect("a", {"127.0.0.1", a.port}, 300ms);
    return n;
  };
  std::vector<std::unique_ptr<node>> up;
  for (int i = 0; i < 15; ++i) {
    up.push_back(session("client.alice." + std::to_string(i), dir_ / "client.alice"));
    ASSERT_TRUE(up.back()->wait_up("a")) << i;
  }
  const auto no = session("client.alice.one_more", dir_ / "client.alice");
  ASSERT_TRUE(no->wait_down("a", 5s));
  EXPECT_NE(no->downs["a"][0].message.find("client sessions"), std::string::npos) << no->downs["a"][0].message;
  up.push_back(session("client.x", dir_));
  ASSERT_TRUE(up.back()->wait_up("a")) << "an admin";
  EXPECT_TRUE(session("client.y", dir_)->wait_down("a", 5s));
  up.front()->net->close();
  ASSERT_TRUE(a.wait_down("client.alice.0", 5s));
  EXPECT_TRUE(session("client.z", dir_)->wait_up("a")) << "one session has ended";
  auto b = start("b");
  b->net->connect("a", {"127.0.0.1", a.port}, 10s);
  EXPECT_TRUE(b->wait_up("a")) << "the limit does not apply to nodes";
}

}  // namespace
}  // namespace troupe::net
