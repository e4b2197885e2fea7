// The key `data_address` of a node, and what a daemon says if it cannot listen there.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {
namespace {

class data_address : public cluster_test {
 protected:
  // Adds the key to a node of the cluster file.
  void set_data_address(const std::string& node, const std::string& where) {
    std::ifstream in(path("cluster.toml"));
    std::stringstream all;
    all << in.rdbuf();
    auto text = all.str();
    const auto at = text.find("roles", text.find("name = \"" + node + "\""));
    ASSERT_NE(at, std::string::npos);
    write("cluster.toml", text.insert(at, "data_address = \"" + where + "\"\n"));
  }
  // Exit code and log of a daemon that does not start.
  std::pair<int, std::string> failed_start(const std::string& node) {
    process p({std::string(TROUPE_BIN_DIR) + "/trouped", "--cluster", path("cluster.toml"), "--node", node}, folder_);
    const int code = p.wait(10s);
    return {code, p.log()};
  }
};

TEST_F(data_address, is_where_the_node_listens_and_where_the_others_reach_it) {
  make_cluster(2);
  const auto port = free_port(), other = free_port();
  set_data_address("n1", "127.0.0.1:" + std::to_string(port));
  set_data_address("n2", "127.0.0.2:" + std::to_string(other));
  start_all();
  EXPECT_EQ(data_port("n1"), port);
  EXPECT_NE(daemon("n2").out().find(" data 127.0.0.2:" + std::to_string(other)), std::string::npos) << daemon("n2").out();
  const auto nodes = ask("n1", "nodes").text;
  EXPECT_NE(nodes.find("127.0.0.1:" + std::to_string(port)), std::string::npos) << nodes;
  EXPECT_NE(nodes.find("127.0.0.2:" + std::to_string(other)), std::string::npos) << nodes;
  EXPECT_EQ(run(tiny_job(), workers(2, 2)).outcome.exit_code(), 0) << "both nodes send tensors";
}

TEST_F(data_address, a_port_in_use_is_an_error_that_names_the_key_and_the_node) {
  make_cluster(1);
  const int s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof a;
  ASSERT_EQ(::bind(s, reinterpret_cast<sockaddr*>(&a), size), 0);
  ASSERT_EQ(::listen(s, 1), 0);
  ASSERT_EQ(::getsockname(s, reinterpret_cast<sockaddr*>(&a), &size), 0);
  const auto where = "127.0.0.1:" + std::to_string(ntohs(a.sin_port));
  set_data_address("n1", where);
  const auto [code, log] = failed_start("n1");
  ::close(s);
  EXPECT_EQ(code, 2);
  EXPECT_NE(log.find(where + " is already in use (data_address of node n1)"), std::string::npos) << log;
}

TEST_F(data_address, an_address_of_another_machine_is_an_error_that_names_the_key_and_the_node) {
  make_cluster(1);
  set_data_address("n1", "192.0.2.1:7801");  // reserved for documentation (RFC 5737)
  const auto [code, log] = failed_start("n1");
  EXPECT_EQ(code, 2);
  EXPECT_NE(log.find("cannot listen on 192.0.2.1:7801"), std::string::npos) << log;
  EXPECT_NE(log.find("(data_address of node n1)"), std::string::npos) << log;
}

}  // namespace
}  // namespace troupe::testing_cluster
