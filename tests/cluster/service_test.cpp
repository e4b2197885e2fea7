// A daemon under a service manager, which is a notification socket here.
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {
namespace {

// Receives the notifications of daemons that start while the object exists.
class notify_socket {
 public:
  notify_socket(const std::string& path, const char* watchdog_usec, const std::string& watchdog_pid = {}) {
    fd_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::strncpy(at.sun_path, path.c_str(), sizeof at.sun_path - 1);
    if (::bind(fd_, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) throw std::runtime_error("cannot bind " + path);
    ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
    ::setenv("WATCHDOG_USEC", watchdog_usec, 1);
    if (!watchdog_pid.empty()) ::setenv("WATCHDOG_PID", watchdog_pid.c_str(), 1);
  }
  ~notify_socket() {
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) ::unsetenv(name);
    ::close(fd_);
  }
  notify_socket(const notify_socket&) = delete;
  notify_socket& operator=(const notify_socket&) = delete;

  // Waits for a message with this beginning. Earlier messages are kept in `heard`.
  bool wait(const std::string& beginning, millis within) {
    const auto end = clock::now() + within;
    while (true) {
      const auto left = std::chrono::duration_cast<millis>(end - clock::now()).count();
      pollfd p{fd_, POLLIN, 0};
      if (left <= 0 || ::poll(&p, 1, static_cast<int>(left)) <= 0) return false;
      char text[4096];
      const auto n = ::recv(fd_, text, sizeof text, 0);
      received.emplace_back(text, static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
      if (received.back().starts_with(beginning)) return true;
    }
  }
  std::vector<std::string> received;

 private:
  int fd_ = -1;
};

class cluster_service : public cluster_test {};

TEST_F(cluster_service, a_daemon_notifies_when_it_is_ready_reloads_and_stops) {
  make_cluster(1);
  notify_socket manager(path("notify"), "0");
  start("n1");
  ASSERT_TRUE(manager.wait("READY=1\nSTATUS=listening on 127.0.0.1:", 10s));
  daemon("n1").signal(SIGHUP);
  ASSERT_TRUE(manager.wait("RELOADING=1\nMONOTONIC_USEC=", 10s));
  ASSERT_TRUE(manager.wait("READY=1", 10s));
  daemon("n1").signal(SIGTERM);
  ASSERT_TRUE(manager.wait("STOPPING=1", 10s));
  EXPECT_EQ(daemon("n1").wait(), 0);
  for (const auto& line : manager.received) EXPECT_EQ(line.find("WATCHDOG"), std::string::npos) << "the watchdog is disabled";
}

TEST_F(cluster_service, a_daemon_feeds_the_watchdog_with_and_without_a_running_job) {
  make_cluster(1);
  notify_socket manager(path("notify"), "1000000");
  start("n1");
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(manager.wait("WATCHDOG=1", 10s)) << i;
  auto b = begin(tiny_job(), endless({}));
  ASSERT_TRUE(b->wait_event("step", 20s, 5));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(manager.wait("WATCHDOG=1", 10s)) << i;
  EXPECT_EQ(ask("n1", "stop").how, repl_reply::kind::ok);
  b->join();
}

TEST_F(cluster_service, a_watchdog_of_another_process_is_not_fed) {
  make_cluster(1);
  notify_socket manager(path("notify"), "100000", "1");
  start("n1");
  ASSERT_TRUE(manager.wait("READY=1", 10s));
  EXPECT_EQ(run(tiny_job()).outcome.exit_code(), 0);
  daemon("n1").signal(SIGTERM);
  ASSERT_TRUE(manager.wait("STOPPING=1", 10s));
  for (const auto& line : manager.received) EXPECT_EQ(line.find("WATCHDOG"), std::string::npos);
}

TEST_F(cluster_service, an_invalid_notification_socket_does_not_affect_a_daemon) {
  make_cluster(1);
  { const notify_socket gone(path("notify"), "1000"); }
  for (const std::string& where : std::vector<std::string>{path("notify"), "relative", "@missing", "/" + std::string(500, 'x')}) {
    ::setenv("NOTIFY_SOCKET", where.c_str(), 1);
    ::setenv("WATCHDOG_USEC", "many", 1);
    start("n1");
    EXPECT_NE(ask("n1", "status").text.find("n1"), std::string::npos);
    kill_hard("n1");
  }
  ::unsetenv("NOTIFY_SOCKET");
  ::unsetenv("WATCHDOG_USEC");
}

TEST_F(cluster_service, unused_signals_are_logged_once_and_ignored) {
  make_cluster(1);
  start("n1");
  const auto line = [](const std::string& name) { return name + ": this signal has no meaning for the daemon and is ignored"; };
  const std::vector<std::pair<int, std::string>> all{{SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"}, {SIGALRM, "SIGALRM"}};
  for (const auto& [number, name] : all) {
    daemon("n1").signal(number);
    ASSERT_TRUE(daemon("n1").wait_log(line(name), 10s)) << name;
    daemon("n1").signal(number);
  }
  EXPECT_EQ(run(tiny_job()).outcome.exit_code(), 0);
  daemon("n1").signal(SIGTERM);  // handled last, because its number is the largest
  EXPECT_EQ(daemon("n1").wait(), 0);
  const auto& log = daemon("n1").log();
  for (const auto& [number, name] : all) EXPECT_EQ(log.find(line(name)), log.rfind(line(name))) << name;
}

TEST_F(cluster_service, a_daemon_does_not_start_with_an_unusable_state_folder) {
  make_cluster(1);
  const auto file = write("file", "text\n");
  std::filesystem::create_directory_symlink("nowhere", path("lost"));
  for (const auto& bad : {file, std::string("/dev/null"), file + "/below", std::string("/dev/null/below"), path("lost")}) {
    process d({std::string(TROUPE_BIN_DIR) + "/trouped", "--cluster", path("cluster.toml"), "--node", "n1", "--state", bad},
              folder_);
    EXPECT_EQ(d.wait(10s), 2) << bad;
    EXPECT_NE(d.log().find("the state folder " + bad + " cannot be used: "), std::string::npos) << bad << ": " << d.log();
    EXPECT_NE(d.log().find("name a folder that this daemon may write to with --state"), std::string::npos) << d.log();
  }
  EXPECT_EQ(std::filesystem::file_size(file), 5u);
}

}  // namespace
}  // namespace troupe::testing_cluster
