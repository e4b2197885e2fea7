// libtroupe_exchange against a real daemon: client processes, their threads, deadlines, forks and
// deaths.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <set>

#include "runtime/node/pki/certificates.hpp"
#include "tests/cluster/exchange_fixture.hpp"

namespace troupe::testing_cluster {
namespace {

TEST_F(cluster_exchange, all_reduce_of_large_buffers_is_the_same_on_two_to_four_ranks) {
  constexpr std::size_t n = 700'001;  // several pieces
  for (int size = 2; size <= 4; ++size) {
    std::vector<std::vector<float>> got(static_cast<std::size_t>(size), std::vector<float>(n));
    ranks(size, TROUPE_EXCHANGE_AVERAGE, 0, [&](int rank, troupe_exchange* x) {
      auto& v = got[static_cast<std::size_t>(rank)];
      const auto b = declare(x, n);
      for (int round = 0; round < 3; ++round) {
        for (std::size_t k = 0; k < n; ++k) v[k] = static_cast<float>(rank + 1) / static_cast<float>(k + 3);
        ASSERT_EQ(troupe_exchange_all_reduce(x, b, v.data(), n, TROUPE_EXCHANGE_SUM, patient), 0) << troupe_exchange_error_text();
      }
    });
    const auto same_bits = [](float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); };
    for (const auto& other : got) EXPECT_TRUE(std::equal(other.begin(), other.end(), got[0].begin(), same_bits));
    const auto sum = static_cast<float>(size) * static_cast<float>(size + 1) / 2;
    for (std::size_t k = 0; k < n; k += 997) EXPECT_NEAR(got[0][k], sum / static_cast<float>(k + 3), 1e-5f);
  }
}

// Rounds with more unread data than the control plane allows other clients, while its limit on them
// is active.
TEST_F(cluster_exchange, rounds_of_64_mb_buffers_succeed) {
  constexpr std::size_t n = 16'000'000;
  ranks(2, TROUPE_EXCHANGE_AVERAGE, 0, [&](int rank, troupe_exchange* x) {
    std::vector<float> v(n);
    const auto b = declare(x, n);
    for (int round = 0; round < 4; ++round) {
      std::fill(v.begin(), v.end(), static_cast<float>(rank + 1));
      ASSERT_EQ(troupe_exchange_all_reduce(x, b, v.data(), n, TROUPE_EXCHANGE_SUM, patient), 0) << troupe_exchange_error_text();
      ASSERT_TRUE(std::all_of(v.begin(), v.end(), [](float f) { return f == 3; }));
    }
  });
}

TEST_F(cluster_exchange, easgd_moves_workers_to_the_centre_and_preserves_their_sum) {
  for (const int averaging_method : {TROUPE_EXCHANGE_EASGD, TROUPE_EXCHANGE_EASGD_SYNC}) {
    std::vector<std::vector<double>> w{{8, 0, 1}, {0, 4, 1}, {1, 1, 1}};
    std::vector<double> centre(3);
    ranks(3, averaging_method, 0.25, [&](int rank, troupe_exchange* x) {
      auto& mine = w[static_cast<std::size_t>(rank)];
      const auto b = declare(x, 3, TROUPE_EXCHANGE_FLOAT64);
      // The centre begins at rank 0's values.
      if (averaging_method == TROUPE_EXCHANGE_EASGD && rank == 0) {
        ASSERT_EQ(troupe_exchange_exchange(x, b, mine.data(), 3, patient), 0);
      }
      ASSERT_EQ(troupe_exchange_barrier(x, patient), 0);
      for (int i = 0; i < 40; ++i) {
        ASSERT_EQ(troupe_exchange_exchange(x, b, mine.data(), 3, patient), 0) << troupe_exchange_error_text();
        ASSERT_EQ(troupe_exchange_barrier(x, patient), 0);  // keeps the ranks in step
      }
      if (rank == 0) {
        ASSERT_EQ(troupe_exchange_centre(x, b, centre.data(), 3, patient), 0);
      }
    });
    const double sums[] = {8 + 8 + 0 + 1, 0 + 0 + 4 + 1, 4};
    for (std::size_t k = 0; k < 3; ++k) {
      EXPECT_NEAR(w[0][k] + w[1][k] + w[2][k] + centre[k], sums[k], 1e-9) << averaging_method;
      EXPECT_NEAR(w[0][k], centre[k], 0.1) << averaging_method;
      EXPECT_NEAR(w[2][k], centre[k], 0.1) << averaging_method;
    }
  }
}

TEST_F(cluster_exchange, a_timed_out_call_returns_at_its_deadline_and_can_be_repeated) {
  auto* x = open(0, 2);
  const auto b = declare(x, 4);
  float v[4] = {1, 2, 3, 4};
  for (int i = 0; i < 3; ++i) {
    const auto begun = clock::now();
    EXPECT_EQ(troupe_exchange_all_reduce(x, b, v, 4, TROUPE_EXCHANGE_SUM, 200), TROUPE_EXCHANGE_TIMEOUT);
    EXPECT_GE(since(begun), 190ms);
    EXPECT_LT(since(begun), 2s);
  }
  EXPECT_EQ(v[3], 4) << "a failed call does not change the values";
  EXPECT_STREQ(troupe_exchange_error_name(TROUPE_EXCHANGE_TIMEOUT), "timeout");
  EXPECT_NE(std::string(troupe_exchange_error_text()).find("timeout: the deadline passed"), std::string::npos);
  other_process peer([&](const auto&) {
    auto* y = open(1, 2);
    float u[4] = {1, 1, 1, 1};
    return troupe_exchange_all_reduce(y, declare(y, 4), u, 4, TROUPE_EXCHANGE_SUM, patient) == 0 && u[3] == 5 ? 0 : 1;
  });
  EXPECT_EQ(troupe_exchange_all_reduce(x, b, v, 4, TROUPE_EXCHANGE_SUM, patient), 0) << troupe_exchange_error_text();
  EXPECT_EQ(v[3], 5);
  EXPECT_EQ(peer.join(), 0);
  troupe_exchange_close(x);
}

TEST_F(cluster_exchange, a_silent_or_dead_daemon_is_an_error_within_the_deadline) {
  auto o = options(0, 1);
  const auto nobody = "127.0.0.1:" + std::to_string(free_port());
  o.address = nobody.c_str();
  o.timeout_ms = 300;
  troupe_exchange* none = nullptr;
  auto begun = clock::now();
  EXPECT_EQ(troupe_exchange_open(&o, &none), TROUPE_EXCHANGE_UNREACHABLE);
  EXPECT_LT(since(begun), 2s);
  EXPECT_EQ(none, nullptr);
  EXPECT_NE(std::string(troupe_exchange_error_text()).find(nobody), std::string::npos) << troupe_exchange_error_text();

  auto* x = open(0, 1);
  daemon("n1").signal(SIGSTOP);
  begun = clock::now();
  EXPECT_EQ(troupe_exchange_barrier(x, 300), TROUPE_EXCHANGE_TIMEOUT);
  EXPECT_LT(since(begun), 2s);
  begun = clock::now();
  EXPECT_EQ(troupe_exchange_barrier(x, patient), TROUPE_EXCHANGE_DISCONNECTED)
      << "a daemon that is silent for two seconds counts as dead";
  EXPECT_LT(since(begun), 10s);
  EXPECT_EQ(troupe_exchange_barrier(x, patient), TROUPE_EXCHANGE_DISCONNECTED) << "the session stays disconnected";
  EXPECT_EQ(troupe_exchange_close(x), 0);
  daemon("n1").signal(SIGCONT);
  x = open(0, 1);
  kill_hard("n1");
  begun = clock::now();
  EXPECT_EQ(troupe_exchange_barrier(x, patient), TROUPE_EXCHANGE_DISCONNECTED);
  EXPECT_LT(since(begun), 10s);
  EXPECT_EQ(troupe_exchange_close(x), 0);
}

TEST_F(cluster_exchange, a_killed_rank_is_reported_and_its_lock_and_descriptors_are_freed) {
  const auto before = daemon("n1").descriptors();
  auto peer = std::make_unique<other_process>([&](const auto& ready) {
    auto* y = open(1, 2);
    if (troupe_exchange_lock(y, "data", patient) != 0) return 1;
    ready();
    ::pause();
    return 2;
  });
  ASSERT_TRUE(peer->wait_ready());
  auto* x = open(0, 2);
  const auto b = declare(x, 2);
  EXPECT_EQ(troupe_exchange_lock(x, "data", 200), TROUPE_EXCHANGE_TIMEOUT) << "rank 1 holds the lock";
  std::thread later([&] { peer->kill_hard(); });
  float v[2] = {3, 4};
  const auto begun = clock::now();
  EXPECT_EQ(troupe_exchange_all_reduce(x, b, v, 2, TROUPE_EXCHANGE_SUM, patient), TROUPE_EXCHANGE_PEER_LOST);
  EXPECT_LT(since(begun), 10s);
  later.join();
  EXPECT_NE(std::string(troupe_exchange_error_text()).find("rank 1 is lost"), std::string::npos) << troupe_exchange_error_text();
  EXPECT_EQ(v[0], 3);
  EXPECT_EQ(troupe_exchange_lock(x, "data", patient), 0) << "the lock of a dead rank is released";
  EXPECT_EQ(troupe_exchange_barrier(x, patient), TROUPE_EXCHANGE_PEER_LOST);
  EXPECT_EQ(troupe_exchange_close(x), 0);
  ASSERT_TRUE(daemon("n1").wait_log("rank 0 has closed", 10s));
  for (int i = 0; i < 200 && daemon("n1").descriptors() > before; ++i) daemon("n1").wait_log("\x01", 50ms);
  EXPECT_LE(daemon("n1").descriptors(), before);
}

TEST_F(cluster_exchange, a_rank_that_died_can_be_opened_again) {
  auto peer = std::make_unique<other_process>([&](const auto& ready) {
    auto* y = open(1, 2);
    ready();
    return troupe_exchange_barrier(y, patient);
  });
  ASSERT_TRUE(peer->wait_ready());
  auto* x = open(0, 2);
  peer->kill_hard();
  ASSERT_EQ(troupe_exchange_barrier(x, patient), TROUPE_EXCHANGE_PEER_LOST);
  other_process again([&](const auto&) { return troupe_exchange_barrier(open(1, 2), patient); });
  // Until the new process has opened rank 1, a barrier returns PEER_LOST.
  int r = TROUPE_EXCHANGE_PEER_LOST;
  for (const auto begun = clock::now(); r == TROUPE_EXCHANGE_PEER_LOST && since(begun) < 20s;)
    r = troupe_exchange_barrier(x, patient);
  EXPECT_EQ(r, 0) << troupe_exchange_error_text();
  EXPECT_EQ(again.join(), 0);
  troupe_exchange_close(x);
}

TEST_F(cluster_exchange, locks_exclude_across_processes) {
  const auto file = path("counter");
  const auto count = [file](troupe_exchange* x) {
    for (int i = 0; i < 50; ++i) {
      if (troupe_exchange_lock(x, "file", patient) != 0) return 1;
      long n = 0;
      if (auto* f = std::fopen(file.c_str(), "r")) {
        if (std::fscanf(f, "%ld", &n) != 1) n = 0;
        std::fclose(f);
      }
      auto* f = std::fopen(file.c_str(), "w");
      std::fprintf(f, "%ld", n + 1);
      std::fclose(f);
      if (troupe_exchange_unlock(x, "file", patient) != 0) return 2;
    }
    return 0;
  };
  other_process a([&](const auto&) { return count(open(0, 3, TROUPE_EXCHANGE_EASGD, 0.5)); });
  other_process b([&](const auto&) { return count(open(1, 3, TROUPE_EXCHANGE_EASGD, 0.5)); });
  auto* mine = open(2, 3, TROUPE_EXCHANGE_EASGD, 0.5);
  EXPECT_EQ(count(mine), 0);
  EXPECT_EQ(a.join(), 0);
  EXPECT_EQ(b.join(), 0);
  EXPECT_EQ(troupe_exchange_close(mine), 0);
  long n = 0;
  auto* f = std::fopen(file.c_str(), "r");
  ASSERT_EQ(std::fscanf(f, "%ld", &n), 1);
  std::fclose(f);
  EXPECT_EQ(n, 150);
}

TEST_F(cluster_exchange, a_forked_child_cannot_use_its_parents_session) {
  auto* x = open(0, 1);
  const auto b = declare(x, 1);
  float v = 1;
  const pid_t child = ::fork();
  if (child == 0) {
    std::int32_t other = 0;
    const bool fine = troupe_exchange_barrier(x, patient) == TROUPE_EXCHANGE_FORKED &&
                      troupe_exchange_register(x, "z", 0, 1, patient, &other) == TROUPE_EXCHANGE_FORKED &&
                      troupe_exchange_exchange(x, b, &v, 1, patient) == TROUPE_EXCHANGE_FORKED &&
                      troupe_exchange_all_reduce(x, b, &v, 1, 0, patient) == TROUPE_EXCHANGE_FORKED &&
                      troupe_exchange_broadcast(x, b, &v, 1, 0, patient) == TROUPE_EXCHANGE_FORKED &&
                      troupe_exchange_centre(x, b, &v, 1, patient) == TROUPE_EXCHANGE_FORKED &&
                      troupe_exchange_lock(x, "l", patient) == TROUPE_EXCHANGE_FORKED &&
                      troupe_exchange_unlock(x, "l", patient) == TROUPE_EXCHANGE_FORKED &&
                      troupe_exchange_close(x) == TROUPE_EXCHANGE_FORKED &&
                      std::strstr(troupe_exchange_error_text(), "fork") != nullptr;
    ::_exit(fine ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(troupe_exchange_barrier(x, patient), 0) << "the parent's session still works";
  EXPECT_EQ(troupe_exchange_close(x), 0);
}

TEST_F(cluster_exchange, close_leaves_no_thread_no_descriptor_and_no_signal_setting) {
  struct sigaction before[32], after[32];
  sigset_t mask_before, mask_after;
  for (int s = 1; s < 32; ++s) ::sigaction(s, nullptr, &before[s]);
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask_before);
  troupe_exchange_close(open(0, 1));  // libraries now hold what they allocate once
  const auto threads = entries("/proc/self/task"), files = entries("/proc/self/fd");
  for (int i = 0; i < 10; ++i) {
    auto* x = open(0, 1);
    const auto b = declare(x, 300'000);
    std::vector<float> v(300'000, 1);
    EXPECT_EQ(troupe_exchange_all_reduce(x, b, v.data(), v.size(), TROUPE_EXCHANGE_SUM, patient), 0);
    EXPECT_EQ(entries("/proc/self/task"), threads + 1) << "one thread for each session";
    EXPECT_EQ(troupe_exchange_close(x), 0);
    EXPECT_EQ(entries("/proc/self/task"), threads);
    EXPECT_EQ(entries("/proc/self/fd"), files);
  }
  for (int s = 1; s < 32; ++s) {
    ::sigaction(s, nullptr, &after[s]);
    EXPECT_EQ(before[s].sa_handler, after[s].sa_handler) << "signal " << s;
  }
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask_after);
  for (int s = 1; s < 32; ++s) EXPECT_EQ(sigismember(&mask_before, s), sigismember(&mask_after, s)) << "signal " << s;
}

TEST_F(cluster_exchange, threads_of_one_rank_are_serialized_and_close_wakes_them) {
  auto* x = open(0, 2, TROUPE_EXCHANGE_EASGD, 0.5);
  const auto b = declare(x, 1000);
  std::atomic<int> fine{0};
  std::vector<std::thread> all;
  for (int t = 0; t < 4; ++t)
    all.emplace_back([&] {
      std::vector<float> v(1000, 1);
      for (int i = 0; i < 25; ++i) fine += troupe_exchange_exchange(x, b, v.data(), 1000, patient) == 0 ? 1 : 0;
    });
  for (auto& t : all) t.join();
  EXPECT_EQ(fine, 100);
  std::atomic<int> code{-1};
  std::atomic<bool> going{false};
  std::thread waits([&] {
    going = true;
    code = troupe_exchange_barrier(x, patient);  // rank 1 never calls it
  });
  while (!going) std::this_thread::yield();
  // The barrier has begun once this short call times out waiting for its turn. Before that, the
  // lock may succeed.
  while (troupe_exchange_lock(x, "l", 50) != TROUPE_EXCHANGE_TIMEOUT) troupe_exchange_unlock(x, "l", 50);
  const auto begun = clock::now();
  EXPECT_EQ(troupe_exchange_close(x), 0);
  EXPECT_LT(since(begun), 5s);
  waits.join();
  EXPECT_EQ(code, TROUPE_EXCHANGE_CLOSED);
}

TEST_F(cluster_exchange, sessions_without_a_certificate_of_the_cluster_are_refused) {
  const auto other = path("other");
  ASSERT_TRUE(make_cluster_certificates(other, "lab", {{"n1", {"127.0.0.1"}}}));
  auto o = options(0, 1);
  o.tls_dir = other.c_str();
  troupe_exchange* x = nullptr;
  EXPECT_EQ(troupe_exchange_open(&o, &x), TROUPE_EXCHANGE_UNREACHABLE) << "another CA's certificate";
  const auto missing = path("nothing");
  o.tls_dir = missing.c_str();
  EXPECT_EQ(troupe_exchange_open(&o, &x), TROUPE_EXCHANGE_NO_CERTIFICATE);
  EXPECT_STREQ(troupe_exchange_error_name(TROUPE_EXCHANGE_NO_CERTIFICATE), "no_certificate");
  EXPECT_NE(std::string(troupe_exchange_error_text()).find("ca.pem"), std::string::npos) << troupe_exchange_error_text();
}

TEST_F(cluster_exchange, invalid_arguments_are_refused) {
  troupe_exchange* x = nullptr;
  const auto refuses = [&](const std::function<void(troupe_exchange_options&)>& wrong) {
    auto o = options(0, 2, TROUPE_EXCHANGE_EASGD, 0.5);
    wrong(o);
    EXPECT_EQ(troupe_exchange_open(&o, &x), TROUPE_EXCHANGE_BAD_ARGUMENT);
    EXPECT_EQ(x, nullptr);
  };
  refuses([](auto& o) { o.struct_size = 8; });
  refuses([](auto& o) { o.address = nullptr; });
  refuses([](auto& o) { o.address = "no port"; });
  refuses([](auto& o) { o.session = ""; });
  refuses([](auto& o) { o.rank = 2; });
  refuses([](auto& o) { o.rank = -2; });
  refuses([](auto& o) { o.size = 0; });
  refuses([](auto& o) { o.alpha = 1; });
  refuses([](auto& o) { o.alpha = std::nan(""); });
  refuses([](auto& o) { o.averaging_method = 4; });
  refuses([](auto& o) { o.timeout_ms = 0; });
  x = open(0, 2, TROUPE_EXCHANGE_EASGD, 0.5);
  const auto b = declare(x, 3);
  float v[3] = {};
  std::int32_t other = 0;
  EXPECT_EQ(troupe_exchange_exchange(x, b, v, 4, patient), TROUPE_EXCHANGE_BAD_ARGUMENT);
  EXPECT_EQ(troupe_exchange_exchange(x, b + 1, v, 3, patient), TROUPE_EXCHANGE_BAD_ARGUMENT);
  EXPECT_EQ(troupe_exchange_exchange(x, -1, v, 3, patient), TROUPE_EXCHANGE_BAD_ARGUMENT);
  EXPECT_EQ(troupe_exchange_exchange(x, b, nullptr, 3, patient), TROUPE_EXCHANGE_BAD_ARGUMENT);
  EXPECT_EQ(troupe_exchange_exchange(nullptr, b, v, 3, patient), TROUPE_EXCHANGE_BAD_ARGUMENT);
  EXPECT_EQ(troupe_exchange_barrier(x, 0), TROUPE_EXCHANGE_BAD_ARGUMENT);
  EXPECT_EQ(troupe_exchange_register(x, "w", TROUPE_EXCHANGE_FLOAT32, 4, patient, &other), TROUPE_EXCHANGE_MISMATCH);
  EXPECT_EQ(troupe_exchange_register(x, "huge", TROUPE_EXCHANGE_FLOAT64, std::uint64_t{1} << 62, patient, &other),
            TROUPE_EXCHANGE_TOO_LARGE);
  EXPECT_EQ(troupe_exchange_unlock(x, "l", patient), TROUPE_EXCHANGE_NOT_HELD);
  auto o = options(0, 2, TROUPE_EXCHANGE_EASGD, 0.5);
  troupe_exchange* twice = nullptr;
  EXPECT_EQ(troupe_exchange_open(&o, &twice), TROUPE_EXCHANGE_RANK_TAKEN);
  EXPECT_EQ(troupe_exchange_close(x), 0);
  EXPECT_EQ(troupe_exchange_close(nullptr), 0);
  std::set<std::string> names;
  for (int c = 0; c <= TROUPE_EXCHANGE_HOLDER_LOST; ++c) names.insert(troupe_exchange_error_name(c));
  EXPECT_EQ(names.size(), TROUPE_EXCHANGE_HOLDER_LOST + 1u);
}

}  // namespace
}  // namespace troupe::testing_cluster
