// Unauthenticated clients at the control and data ports of a daemon: they are disconnected within a
// second (silent ones within five) and leave no descriptors open.
#include <list>
#include <random>

#include "tests/cluster/processes.hpp"
#include "tests/error_text.hpp"
#include "tests/node/net_support.hpp"

namespace troupe::testing_cluster {
namespace {

using net::testing::raw_client;

class cluster_refusal : public cluster_test {
 protected:
  void SetUp() override {
    make_cluster(2);
    start_all();
    ASSERT_TRUE(daemon("n1").wait_log("node n2 has joined", 10s));
    // The first job opens descriptors that stay open. They must not count as a leak.
    ASSERT_EQ(run(tiny_job(), workers(2, 1)).outcome.exit_code(), 0);
    before_ = descriptors();
    others_ = std::make_unique<net::testing::temporary_directory>();
    ASSERT_TRUE(make_cluster_certificates(others_->path() / "certs", "lab", {{"n2", {"127.0.0.1"}}}));
  }
  std::size_t descriptors() { return daemon("n1").descriptors(); }
  std::vector<std::uint16_t> ports() const { return {control_port("n1"), data_port("n1")}; }
  void unharmed() {
    // Closing takes the daemon a moment and is not logged, so wait for the number of descriptors.
    const auto end = clock::now() + 10s;
    while (descriptors() > before_ && clock::now() < end) daemon("n1").wait_log("\x01", 20ms);
    EXPECT_LE(descriptors(), before_) << "leaked descriptors";
    EXPECT_EQ(run(tiny_job(), workers(2, 1)).outcome.exit_code(), 0) << "still runs jobs";
  }

  std::size_t before_ = 0;
  std::unique_ptr<net::testing::temporary_directory> others_;
};

TEST_F(cluster_refusal, plain_clients_and_a_caf_header_are_disconnected_within_a_second) {
  // CAF 0.17: operation 0 (server handshake), no flags, no payload. It ends a BASP broker with a
  // segmentation fault.
  std::string basp(32, '\0');
  basp[11] = 4;
  std::string noise(4096, '\0');
  std::mt19937_64 rng(7);
  for (char& c : noise) c = static_cast<char>(rng());
  noise[0] = 'x';
  for (const auto port : ports())
    for (const auto& text :
         {std::string("GET / HTTP/1.1\r\n\r\n"), noise, basp, basp + std::string(96, '\xff'), std::string(1, '\0')}) {
      raw_client c(port);
      c.send_plain(text);
      const bool enough = text.size() > 4;  // a single byte can begin a valid message: closed after 5 s
      EXPECT_TRUE(!enough || c.closed_within(1s)) << port << " " << text.size();
    }
  unharmed();
}

TEST_F(cluster_refusal, a_wrong_ca_and_no_certificate_are_disconnected_within_a_second) {
  for (const auto port : ports())
    for (const auto& stem : {others_->path() / "certs" / "n2", others_->path() / "certs" / "client", std::filesystem::path()}) {
      raw_client c(port);
      c.handshake(stem);
      EXPECT_TRUE(c.closed_within(1s)) << port << " " << stem;
    }
  cluster_address stranger = coordinator();
  stranger.tls_dir = (others_->path() / "certs").string();
  const auto begun = clock::now();
  EXPECT_NE(test::error_text(connect_repl(stranger, false, 8s)), "");
  EXPECT_LT(since(begun), 2s);
  unharmed();
}

TEST_F(cluster_refusal, operators_are_refused_on_the_data_plane) {
  auto where = coordinator();
  where.address = "127.0.0.1:" + std::to_string(data_port("n1"));
  const auto error = test::error_text(connect_repl(where, false, 8s));
  EXPECT_NE(error.find("operators are not accepted on the data plane"), std::string::npos) << error;
  unharmed();
}

TEST_F(cluster_refusal, silent_connections_are_closed_after_5_s_and_block_no_operator) {
  std::list<raw_client> crowd;
  for (const auto port : ports())
    for (int i = 0; i < 300; ++i) crowd.emplace_back(port);
  EXPECT_NE(ask("n1", "status").text.find("n1"), std::string::npos);
  const auto begun = clock::now();
  int number = 0;
  for (auto& c : crowd) EXPECT_TRUE(c.closed_within(std::max<millis>(8s - since(begun), 1ms))) << number++;
  EXPECT_LT(since(begun), 8s);
  crowd.clear();
  unharmed();
}

TEST_F(cluster_refusal, an_authenticated_client_that_sends_junk_is_disconnected) {
  std::mt19937_64 rng(11);
  for (int round = 0; round < 40; ++round) {
    raw_client c(control_port("n1"));
    ASSERT_TRUE(c.handshake(folder_ / "certs" / "client"));
    const auto hello = [&](net::hello& h) {
      h.cluster = "lab";
      h.wanted = "n1";
    };
    ASSERT_TRUE(c.greet("client.x" + std::to_string(round), hello));
    c.read();
    if (round % 2 == 0) c.write_control(net::control_type::welcome);  // invalid: only the daemon may send it
    net::frame_header h;
    h.type = static_cast<std::uint16_t>(rng() % 24);
    net::testing::bytes junk(rng() % 2000);
    for (auto& b : junk) b = static_cast<std::byte>(rng());
    c.write_frame(h, junk);
  }
  unharmed();
}

}  // namespace
}  // namespace troupe::testing_cluster
