// Sums of large buffers between ranks of one machine, computed in shared memory: the bits equal
// those of the daemon's sums. Also ranks that are late, disagree, die during a round or write over
// the memory.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include "runtime/exchange/client/team.hpp"
#include "runtime/exchange/hub/arithmetic.hpp"
#include "tests/cluster/exchange_fixture.hpp"

namespace troupe::testing_cluster {
namespace {

using exchange::element;
using exchange::team;

template <class T>
std::vector<std::vector<T>> drawn(int ranks, std::size_t n) {
  std::mt19937_64 rng(n + static_cast<std::size_t>(ranks));
  std::normal_distribution<T> values;
  std::vector<std::vector<T>> out(static_cast<std::size_t>(ranks), std::vector<T>(n));
  for (auto& v : out)
    for (auto& x : v) x = values(rng);
  return out;
}

// The result as the daemon computes it.
template <class T>
std::vector<T> folded(const std::vector<std::vector<T>>& parts, bool mean) {
  constexpr auto e = std::is_same_v<T, float> ? element::f32 : element::f64;
  std::vector<exchange::block> blocks;
  for (const auto& p : parts) {
    blocks.push_back(exchange::make_block(p.size() * sizeof(T)));
    std::memcpy(blocks.back().get(), p.data(), p.size() * sizeof(T));
  }
  exchange::fold(e, mean ? exchange::reduction::mean : exchange::reduction::sum, blocks, parts[0].size());
  std::vector<T> out(parts[0].size());
  std::memcpy(out.data(), blocks[0].get(), out.size() * sizeof(T));
  return out;
}

constexpr std::size_t floats = team::worth / sizeof(float);

class cluster_exchange_team : public cluster_exchange {
 protected:
  // The number of shared arrays that the daemon holds, found through /proc.
  std::size_t arrays_held() {
    std::size_t n = 0;
    for (const auto& e : std::filesystem::directory_iterator("/proc/" + std::to_string(daemon("n1").pid()) + "/fd")) {
      std::error_code gone;
      if (std::filesystem::read_symlink(e.path(), gone).string().rfind("/memfd:troupe_shared", 0) == 0) ++n;
    }
    return n;
  }
  template <class T>
  void sums(int size, std::size_t n) {
    constexpr int type = sizeof(T) == 4 ? TROUPE_EXCHANGE_FLOAT32 : TROUPE_EXCHANGE_FLOAT64;
    const auto parts = drawn<T>(size, n);
    const auto sum = folded(parts, false), mean = folded(parts, true);
    ranks(size, TROUPE_EXCHANGE_AVERAGE, 0, [&](int r, troupe_exchange* x) {
      const auto b = declare(x, n, type);
      const auto& mine = parts[static_cast<std::size_t>(r)];
      for (int round = 0; round < 3; ++round) {
        auto v = mine;
        ASSERT_EQ(troupe_exchange_all_reduce(x, b, v.data(), n, TROUPE_EXCHANGE_SUM, patient), 0) << troupe_exchange_error_text();
        EXPECT_TRUE(std::memcmp(v.data(), sum.data(), n * sizeof(T)) == 0) << size << " ranks, rank " << r << ", " << n;
        v = mine;
        ASSERT_EQ(troupe_exchange_exchange(x, b, v.data(), n, patient), 0) << troupe_exchange_error_text();
        EXPECT_TRUE(std::memcmp(v.data(), mean.data(), n * sizeof(T)) == 0) << size << " ranks, rank " << r << ", " << n;
      }
    });
  }
};

TEST_F(cluster_exchange_team, sums_in_shared_memory_have_the_bits_of_the_daemons_sums) {
  for (const int size : {2, 3, 5})
    for (const std::size_t n : {floats, floats + 1, 4 * floats - 3, std::size_t{1000003}}) sums<float>(size, n);
  sums<double>(2, 500'001);
  sums<double>(4, 100'003);
}

TEST_F(cluster_exchange_team, large_rounds_use_shared_memory_and_small_ones_the_daemon) {
  ranks(3, TROUPE_EXCHANGE_AVERAGE, 0, [&](int r, troupe_exchange* x) {
    const auto small = declare(x, 1000, TROUPE_EXCHANGE_FLOAT32, "small");
    const auto large = declare(x, 3 * floats, TROUPE_EXCHANGE_FLOAT32, "large");
    std::vector<float> a(1000), b(3 * floats);
    for (int round = 0; round < 20; ++round) {
      std::fill(a.begin(), a.end(), static_cast<float>(r + round));
      std::fill(b.begin(), b.end(), static_cast<float>(r - round));
      ASSERT_EQ(troupe_exchange_all_reduce(x, small, a.data(), a.size(), TROUPE_EXCHANGE_SUM, patient), 0);
      ASSERT_EQ(troupe_exchange_all_reduce(x, large, b.data(), b.size(), TROUPE_EXCHANGE_SUM, patient), 0);
      EXPECT_EQ(a[999], static_cast<float>(3 + 3 * round));
      EXPECT_TRUE(std::all_of(b.begin(), b.end(), [&](float v) { return v == static_cast<float>(3 - 3 * round); }));
      if (round % 5 == 0) {
        ASSERT_EQ(troupe_exchange_barrier(x, patient), 0);
      }
    }
    EXPECT_EQ(arrays_held(), 1U) << "the team's memory";
  });
  EXPECT_TRUE(daemon("n1").wait_log("rank 2 has closed", 10s) || daemon("n1").wait_log("has closed", 1s));
}

TEST_F(cluster_exchange_team, a_late_rank_may_retry_and_ranks_that_disagree_get_a_mismatch) {
  auto *x = open(0, 2), *y = open(1, 2);
  const auto b = declare(x, floats), c = declare(y, floats);
  std::vector<float> v(floats, 1), w(floats, 2);
  EXPECT_EQ(troupe_exchange_all_reduce(x, b, v.data(), floats, TROUPE_EXCHANGE_SUM, 100), TROUPE_EXCHANGE_TIMEOUT);
  EXPECT_EQ(v[7], 1) << "the call was withdrawn and the buffer is unchanged";
  const auto both = [&](int rx, int ry) {
    int of_y = 0;
    std::thread other([&] { of_y = troupe_exchange_all_reduce(y, c, w.data(), floats, ry, patient); });
    const int of_x = troupe_exchange_all_reduce(x, b, v.data(), floats, rx, patient);
    other.join();
    return std::pair(of_x, of_y);
  };
  EXPECT_EQ(both(TROUPE_EXCHANGE_SUM, TROUPE_EXCHANGE_SUM), std::pair(0, 0)) << troupe_exchange_error_text();
  EXPECT_EQ(v[7], 3);
  EXPECT_EQ(w[floats - 1], 3);
  EXPECT_EQ(troupe_exchange_all_reduce(x, b, v.data(), floats, TROUPE_EXCHANGE_SUM, 100), TROUPE_EXCHANGE_TIMEOUT);
  EXPECT_EQ(v[7], 3) << "a withdrawn call of a team leaves the buffer unchanged";
  const auto [sum, mean] = both(TROUPE_EXCHANGE_SUM, TROUPE_EXCHANGE_MEAN);
  EXPECT_EQ(std::pair(sum, mean), std::pair(int{TROUPE_EXCHANGE_MISMATCH}, int{TROUPE_EXCHANGE_MISMATCH}));
  EXPECT_EQ(v[7], 3);
  int of_y = 0;
  std::thread other([&] { of_y = troupe_exchange_barrier(y, patient); });
  EXPECT_EQ(troupe_exchange_all_reduce(x, b, v.data(), floats, TROUPE_EXCHANGE_SUM, patient), TROUPE_EXCHANGE_MISMATCH);
  other.join();
  EXPECT_EQ(of_y, TROUPE_EXCHANGE_MISMATCH) << "the daemon reports which rank made which call";
  EXPECT_NE(std::string(troupe_exchange_error_text()).find("barrier"), std::string::npos) << troupe_exchange_error_text();
  EXPECT_EQ(both(TROUPE_EXCHANGE_MEAN, TROUPE_EXCHANGE_MEAN), std::pair(0, 0));
  EXPECT_EQ(w[0], 3);
  EXPECT_EQ(troupe_exchange_close(x), 0);
  EXPECT_EQ(troupe_exchange_close(y), 0);
}

// Ranks arrive at any time of the others' waits, in the team or at the daemon. Every round
// completes once, for all ranks.
TEST_F(cluster_exchange_team, no_round_is_lost_when_ranks_arrive_early_or_late) {
  ranks(3, TROUPE_EXCHANGE_AVERAGE, 0, [&](int r, troupe_exchange* x) {
    const auto b = declare(x, floats);
    std::mt19937_64 rng(static_cast<unsigned>(r));
    std::vector<float> v(floats);
    for (int round = 0; round < 40; ++round) {
      std::fill(v.begin(), v.end(), static_cast<float>(round + r));
      // Busy for up to a few times the team's waiting time.
      const auto until = clock::now() + std::chrono::microseconds(rng() % 3 == 0 ? rng() % 60'000 : 0);
      while (clock::now() < until) std::this_thread::yield();
      ASSERT_EQ(troupe_exchange_all_reduce(x, b, v.data(), floats, TROUPE_EXCHANGE_SUM, patient), 0)
          << troupe_exchange_error_text();
      ASSERT_TRUE(std::all_of(v.begin(), v.end(), [&](float f) { return f == static_cast<float>(3 * round + 3); })) << round;
    }
  });
}

// One rank is killed during its rounds. The other rank gets an error and continues with the process
// that takes the rank.
TEST_F(cluster_exchange_team, a_killed_rank_is_reported_and_its_rank_can_be_taken_again) {
  std::mt19937_64 rng(3);
  constexpr std::size_t n = 40 * floats;
  const auto play = [&](const auto& ready, int rounds) {
    auto* y = open(1, 2);
    const auto b = declare(y, n);
    std::vector<float> w(n, 2);
    for (int i = 0; rounds == 0 || i < rounds; ++i) {
      if (troupe_exchange_all_reduce(y, b, w.data(), n, TROUPE_EXCHANGE_SUM, patient) != 0) return 1;
      if (i == 2) ready();
      if (w[n - 1] != 3) return 2;
      std::fill(w.begin(), w.end(), 2.0F);
    }
    return troupe_exchange_close(y);
  };
  other_process peer([&](const auto& ready) { return play(ready, 0); });
  auto* x = open(0, 2);
  const auto b = declare(x, n);
  std::vector<float> v(n, 1);
  std::atomic<bool> dead{false};
  std::thread killer([&] {
    if (!peer.wait_ready()) return;
    for (auto spin = rng() % 2'000'000; spin > 0; --spin) dead.load();
    peer.kill_hard();
    dead = true;
  });
  const auto begun = clock::now();
  int r = 0;
  while (r == 0 && since(begun) < 15s) {
    std::fill(v.begin(), v.end(), 1.0F);
    r = troupe_exchange_all_reduce(x, b, v.data(), n, TROUPE_EXCHANGE_SUM, patient);
  }
  killer.join();
  EXPECT_EQ(r, TROUPE_EXCHANGE_PEER_LOST) << troupe_exchange_error_text();
  other_process again([&](const auto& ready) { return play(ready, 5); });
  int done = 0;
  for (const auto limit = clock::now() + 15s; done < 5 && clock::now() < limit;) {
    std::fill(v.begin(), v.end(), 1.0F);
    if (troupe_exchange_all_reduce(x, b, v.data(), n, TROUPE_EXCHANGE_SUM, patient) != 0) continue;
    EXPECT_EQ(v[0], 3);
    ++done;
  }
  EXPECT_EQ(done, 5) << troupe_exchange_error_text();
  EXPECT_EQ(again.join(), 0);
  EXPECT_EQ(troupe_exchange_close(x), 0);
}

// A rank of the same user overwrites all of the team's memory: other ranks get wrong sums or an
// error, and no other harm.
TEST_F(cluster_exchange_team, overwritten_team_memory_causes_only_wrong_sums_or_errors) {
  constexpr std::size_t n = 8 * floats;
  std::atomic<bool> over{false};
  std::vector<std::thread> all;
  std::atomic<int> ready{0};
  for (int r = 0; r < 2; ++r)
    all.emplace_back([&, r] {
      auto* x = open(r, 2);
      const auto b = declare(x, n);
      std::vector<float> v(n + 2000, 7);  // the last 2000 values must stay unchanged
      EXPECT_EQ(troupe_exchange_all_reduce(x, b, v.data(), n, TROUPE_EXCHANGE_SUM, patient), 0);
      ++ready;
      for (int i = 0; i < 60; ++i) {
        const int how = troupe_exchange_all_reduce(x, b, v.data(), n, TROUPE_EXCHANGE_SUM, 300);
        EXPECT_TRUE(how == 0 || how == TROUPE_EXCHANGE_PEER_LOST || how == TROUPE_EXCHANGE_OUT_OF_STEP ||
                    how == TROUPE_EXCHANGE_TIMEOUT || how == TROUPE_EXCHANGE_MISMATCH)
            << troupe_exchange_error_text();
      }
      EXPECT_TRUE(std::all_of(v.begin() + n, v.end(), [](float f) { return f == 7; }));
      troupe_exchange_close(x);
    });
  while (ready < 2) std::this_thread::yield();
  std::thread rude([&] {
    std::mt19937_64 rng(5);
    for (const auto& e : std::filesystem::directory_iterator("/proc/" + std::to_string(daemon("n1").pid()) + "/fd")) {
      std::error_code gone;
      if (std::filesystem::read_symlink(e.path(), gone).string().rfind("/memfd:troupe_shared", 0) != 0) continue;
      const int fd = ::open(e.path().c_str(), O_RDWR | O_CLOEXEC);
      const auto bytes = static_cast<std::size_t>(::lseek(fd, 0, SEEK_END));
      auto* at = static_cast<std::uint32_t*>(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
      while (!over) std::atomic_ref<std::uint32_t>(at[rng() % (3 * 4096 / 4)]).store(static_cast<std::uint32_t>(rng()));
      ::munmap(at, bytes);
      ::close(fd);
      return;
    }
    ADD_FAILURE() << "no memory found";
  });
  for (auto& t : all) t.join();
  over = true;
  rude.join();
}

TEST_F(cluster_exchange_team, close_unmaps_the_team_memory) {
  const auto files = entries("/proc/self/fd");
  ranks(2, TROUPE_EXCHANGE_AVERAGE, 0, [&](int, troupe_exchange* x) {
    const auto b = declare(x, floats);
    std::vector<float> v(floats, 1);
    EXPECT_EQ(troupe_exchange_all_reduce(x, b, v.data(), floats, TROUPE_EXCHANGE_MEAN, patient), 0);
  });
  EXPECT_EQ(entries("/proc/self/fd"), files);
  std::ostringstream maps;
  maps << std::ifstream("/proc/self/maps").rdbuf();
  EXPECT_EQ(maps.str().find("troupe_shared"), std::string::npos);
  for (int i = 0; i < 200 && arrays_held() > 0; ++i) daemon("n1").wait_log("\x01", 20ms);
  EXPECT_EQ(arrays_held(), 0U);
}

}  // namespace
}  // namespace troupe::testing_cluster
