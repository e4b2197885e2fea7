// free_port() of the cluster tests: no two tests, and no two nodes of a cluster file, get the same
// port.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <set>

#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {
namespace {

// Listens like a daemon on `port` (0: any) and closes the socket. Returns the port, 0 if it cannot
// listen there.
std::uint16_t listened(std::uint16_t port) {
  const int s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(port);
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof a;
  const bool ok = ::bind(s, reinterpret_cast<sockaddr*>(&a), sizeof a) == 0 && ::listen(s, 1) == 0 &&
                  ::getsockname(s, reinterpret_cast<sockaddr*>(&a), &size) == 0;
  ::close(s);
  return ok ? ntohs(a.sin_port) : std::uint16_t{0};
}

TEST(cluster_ports, free_port_returns_each_port_once_and_a_daemon_can_listen_there) {
  std::set<std::uint16_t> ours;
  for (int i = 0; i < 400; ++i) ours.insert(free_port());
  EXPECT_EQ(ours.size(), 400u) << "distinct ports of the kernel's 28,000";
  for (int i = 0; i < 400; ++i) {
    const auto theirs = listened(0);
    EXPECT_NE(theirs, 0);
    EXPECT_FALSE(ours.contains(theirs)) << theirs << " was given to another socket";
  }
  for (const auto p : ours) EXPECT_EQ(listened(p), p) << "a daemon may listen there";
}

}  // namespace
}  // namespace troupe::testing_cluster
