// A daemon, sessions of libtroupe_exchange with it, and child processes that act as ranks.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <utility>

#include "runtime/exchange/troupe_exchange.h"
#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {

inline constexpr std::int32_t patient = 20000;

inline std::size_t entries(const char* folder) {
  std::size_t n = 0;
  for ([[maybe_unused]] const auto& e : std::filesystem::directory_iterator(folder)) ++n;
  return n;
}

// A child process that acts as another rank. It reports "ready" through a pipe.
class other_process {
 public:
  explicit other_process(const std::function<int(const std::function<void()>& ready)>& body) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("cannot create a pipe");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::_exit(body([&] { (void)!::write(ends[1], "r", 1); }));
    }
    ::close(ends[1]);
    read_ = ends[0];
  }
  ~other_process() {
    ::close(read_);
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  other_process(const other_process&) = delete;
  other_process& operator=(const other_process&) = delete;
  bool wait_ready() const {
    char c = 0;
    return ::read(read_, &c, 1) == 1;
  }
  void kill_hard() {
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, -1), nullptr, 0);
  }
  int join() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  int read_ = -1;
};

class cluster_exchange : public cluster_test {
 protected:
  void SetUp() override {
    make_cluster(1);
    start("n1");
    address_ = "127.0.0.1:" + std::to_string(control_port("n1"));
    tls_ = path("certs");
  }
  troupe_exchange_options options(int rank, int size, int averaging_method = TROUPE_EXCHANGE_AVERAGE, double alpha = 0) const {
    return {sizeof(troupe_exchange_options), address_.c_str(), tls_.c_str(), "s", rank, size, averaging_method, alpha, patient};
  }
  troupe_exchange* open(int rank, int size, int averaging_method = TROUPE_EXCHANGE_AVERAGE, double alpha = 0) const {
    const auto o = options(rank, size, averaging_method, alpha);
    troupe_exchange* x = nullptr;
    EXPECT_EQ(troupe_exchange_open(&o, &x), TROUPE_EXCHANGE_OK) << troupe_exchange_error_text();
    return x;
  }
  static std::int32_t declare(troupe_exchange* x, std::uint64_t count, int type = TROUPE_EXCHANGE_FLOAT32, const char* name = "w") {
    std::int32_t b = -1;
    EXPECT_EQ(troupe_exchange_register(x, name, type, count, patient, &b), TROUPE_EXCHANGE_OK) << troupe_exchange_error_text();
    return b;
  }
  // Runs f(rank, session) on a thread for each rank.
  void ranks(int size, int averaging_method, double alpha, const std::function<void(int, troupe_exchange*)>& f) const {
    std::vector<std::thread> all;
    for (int r = 0; r < size; ++r)
      all.emplace_back([&, r] {
        auto* x = open(r, size, averaging_method, alpha);
        f(r, x);
        EXPECT_EQ(troupe_exchange_barrier(x, patient), TROUPE_EXCHANGE_OK) << troupe_exchange_error_text();
        EXPECT_EQ(troupe_exchange_close(x), TROUPE_EXCHANGE_OK);
      });
    for (auto& t : all) t.join();
  }

  std::string address_, tls_;
};

}  // namespace troupe::testing_cluster
