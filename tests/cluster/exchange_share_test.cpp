// Shared arrays of libtroupe_exchange, in processes that share them through a real daemon.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>

#include "runtime/exchange/shared/shared_memory.hpp"
#include "tests/cluster/exchange_fixture.hpp"

namespace troupe::testing_cluster {
namespace {

using exchange::element;
using exchange::shared_array;
using exchange::shared_at;
using exchange::taken;

class cluster_exchange_share : public cluster_exchange {
 protected:
  template <class T>
  static std::int32_t share(troupe_exchange* x, const std::vector<T>& v, const char* name = "w") {
    std::int32_t a = -1;
    const int type = sizeof(T) == 4 ? TROUPE_EXCHANGE_FLOAT32 : TROUPE_EXCHANGE_FLOAT64;
    EXPECT_EQ(troupe_exchange_share(x, name, type, v.size(), v.data(), patient, &a), 0) << troupe_exchange_error_text();
    return a;
  }
  template <class T>
  static std::vector<T> read(troupe_exchange* x, std::int32_t a, std::size_t n, int lock = 0) {
    std::vector<T> v(n);
    EXPECT_EQ(troupe_exchange_shared_read(x, a, v.data(), n, lock, patient), 0) << troupe_exchange_error_text();
    return v;
  }
  // Finds the daemon's first shared array through /proc.
  shared_at find() {
    shared_at at;
    at.process = static_cast<std::uint32_t>(daemon("n1").pid());
    for (const auto& e : std::filesystem::directory_iterator("/proc/" + std::to_string(at.process) + "/fd")) {
      std::error_code ignored;
      if (std::filesystem::read_symlink(e.path(), ignored).string().rfind("/memfd:troupe_shared", 0) != 0) continue;
      at.descriptor = static_cast<std::uint32_t>(std::stoul(e.path().filename().string()));
      std::ifstream in(e.path(), std::ios::binary);
      in.seekg(8);
      in.read(reinterpret_cast<char*>(&at.token), sizeof at.token);
      std::ifstream boot("/proc/sys/kernel/random/boot_id");
      std::getline(boot, at.machine);
      return at;
    }
    ADD_FAILURE() << "the daemon has no shared array";
    return at;
  }
  // Counts only arrays: other descriptors of a daemon depend on its clients (one that closed before
  // the test began may still be open when it begins).
  bool daemon_holds_arrays(std::size_t n) {
    const auto held = [&] {
      std::size_t arrays = 0;
      for (const auto& e : std::filesystem::directory_iterator("/proc/" + std::to_string(daemon("n1").pid()) + "/fd")) {
        std::error_code gone;
        if (std::filesystem::read_symlink(e.path(), gone).string().rfind("/memfd:troupe_shared", 0) == 0) ++arrays;
      }
      return arrays;
    };
    for (int i = 0; i < 200 && held() != n; ++i) daemon("n1").wait_log("\x01", 50ms);
    return held() == n;
  }
  static std::string mappings() {
    std::ostringstream out;
    out << std::ifstream("/proc/self/maps").rdbuf();
    return out.str();
  }
  // Two processes each add 1 to 20'000 numbers 500 times. Returns the numbers.
  std::vector<float> added_by_two(int lock) {
    constexpr std::size_t n = 20'000;
    const auto add = [&](int rank) {
      auto* x = open(rank, 3);
      const auto a = share(x, std::vector<float>(n, static_cast<float>(100 * rank)));
      const std::vector<float> one(n, 1);
      if (troupe_exchange_barrier(x, patient) != 0) return 1;
      for (int i = 0; i < 500; ++i)
        if (troupe_exchange_shared_add(x, a, one.data(), n, 1, lock, patient) != 0) return 2;
      return troupe_exchange_barrier(x, patient);
    };
    auto* x = open(0, 3);
    const auto a = share(x, std::vector<float>(n, 7));  // shared first, so the numbers start at 7
    other_process first([&](const auto&) { return add(1); }), second([&](const auto&) { return add(2); });
    EXPECT_EQ(troupe_exchange_barrier(x, patient), 0) << troupe_exchange_error_text();
    EXPECT_EQ(troupe_exchange_barrier(x, patient), 0) << troupe_exchange_error_text();
    auto sum = read<float>(x, a, n);
    EXPECT_EQ(first.join(), 0);
    EXPECT_EQ(second.join(), 0);
    EXPECT_EQ(troupe_exchange_close(x), 0);
    return sum;
  }
};

TEST_F(cluster_exchange_share, locked_additions_of_two_processes_are_all_counted) {
  for (const float v : added_by_two(1)) ASSERT_EQ(v, 1007);
}

TEST_F(cluster_exchange_share, unlocked_additions_may_be_lost_but_values_are_never_torn) {
  for (const float v : added_by_two(0)) {
    ASSERT_LE(v, 1007);
    ASSERT_GE(v, 8);
    ASSERT_EQ(v, static_cast<float>(static_cast<int>(v)));
  }
}

TEST_F(cluster_exchange_share, all_ranks_see_the_first_ranks_values_and_later_writes) {
  auto *x = open(0, 2), *y = open(1, 2);
  const std::vector<double> mine{1, 2, 3}, other{4, 5, 6};
  const auto a = share(x, mine), b = share(y, other);
  EXPECT_EQ(read<double>(y, b, 3, 1), mine);
  EXPECT_EQ(troupe_exchange_shared_write(y, b, other.data(), 3, 1, patient), 0);
  EXPECT_EQ(troupe_exchange_shared_add(x, a, mine.data(), 3, -2, 0, patient), 0);
  EXPECT_EQ(read<double>(y, b, 3), (std::vector<double>{2, 1, 0}));
  EXPECT_EQ(share(x, mine), a) << "sharing it again returns the same handle and changes no value";
  EXPECT_EQ(read<double>(x, a, 3), (std::vector<double>{2, 1, 0}));
  const auto c = share(x, mine, "v");
  EXPECT_NE(c, a) << "another array";
  EXPECT_EQ(read<double>(x, c, 3), mine);
  EXPECT_EQ(troupe_exchange_close(x), 0);
  EXPECT_EQ(read<double>(y, b, 3), (std::vector<double>{2, 1, 0})) << "the array exists while the session has a rank";
  EXPECT_EQ(troupe_exchange_close(y), 0);
  x = open(0, 2);
  EXPECT_EQ(read<double>(x, share(x, mine), 3), mine) << "the array of the ended session is gone";
  EXPECT_EQ(troupe_exchange_close(x), 0);
}

TEST_F(cluster_exchange_share, a_held_lock_times_out_and_the_lock_of_a_dead_process_is_freed) {
  auto* x = open(0, 1);
  const std::vector<float> v{1, 2};
  const auto a = share(x, v);
  const auto at = find();
  other_process holder([&](const auto& ready) {
    const auto mapped = shared_array::map(at, element::f32, 2);
    if (!mapped) return 1;
    const auto& m = *mapped;
    if (m->lock(clock::now() + 20s) != taken::yes) return 1;
    ready();
    ::pause();
    return 2;
  });
  ASSERT_TRUE(holder.wait_ready());
  const auto begun = clock::now();
  EXPECT_EQ(troupe_exchange_shared_add(x, a, v.data(), 2, 1, 1, 200), TROUPE_EXCHANGE_TIMEOUT);
  EXPECT_GE(since(begun), 190ms);
  EXPECT_LT(since(begun), 2s);
  EXPECT_NE(std::string(troupe_exchange_error_text()).find("'w'"), std::string::npos) << troupe_exchange_error_text();
  EXPECT_EQ(troupe_exchange_shared_add(x, a, v.data(), 2, 1, 0, 200), 0) << "a call without the lock does not wait";
  holder.kill_hard();
  float out[2] = {9, 9};
  EXPECT_EQ(troupe_exchange_shared_read(x, a, out, 2, 1, patient), TROUPE_EXCHANGE_HOLDER_LOST);
  EXPECT_STREQ(troupe_exchange_error_name(TROUPE_EXCHANGE_HOLDER_LOST), "holder_lost");
  EXPECT_NE(std::string(troupe_exchange_error_text()).find("died"), std::string::npos) << troupe_exchange_error_text();
  EXPECT_EQ(out[0], 9) << "the failed read changed the buffer";
  EXPECT_EQ(read<float>(x, a, 2, 1), (std::vector<float>{2, 4})) << "the lock is free again";
  EXPECT_EQ(troupe_exchange_close(x), 0);
}

TEST_F(cluster_exchange_share, the_daemon_frees_shared_arrays_after_a_killed_rank) {
  auto* x = open(0, 2);
  const auto a = share(x, std::vector<float>(100'000, 1));
  other_process peer([&](const auto& ready) {
    auto* y = open(1, 2);
    share(y, std::vector<float>(100'000, 2));
    share(y, std::vector<double>(10, 2), "of its own");
    // When this call is answered, the daemon has been notified that the array is filled. If this
    // process died earlier, the daemon would drop the array.
    if (troupe_exchange_lock(y, "l", patient) != 0) return 1;
    ready();
    ::pause();
    return 0;
  });
  ASSERT_TRUE(peer.wait_ready());
  EXPECT_TRUE(daemon_holds_arrays(2));
  peer.kill_hard();
  EXPECT_TRUE(daemon("n1").wait_log("rank 1 is lost", 10s));
  EXPECT_TRUE(daemon_holds_arrays(2)) << "the arrays belong to the session, not to the dead rank";
  EXPECT_EQ(read<float>(x, a, 1000 * 100)[99'999], 1);
  EXPECT_EQ(troupe_exchange_close(x), 0);
  EXPECT_TRUE(daemon_holds_arrays(0));
}

TEST_F(cluster_exchange_share, close_unmaps_and_leaves_no_descriptor) {
  troupe_exchange_close(open(0, 1));
  const auto files = entries("/proc/self/fd");
  auto* x = open(0, 1);
  const auto open_files = entries("/proc/self/fd");
  share(x, std::vector<float>(1000, 1));
  EXPECT_EQ(entries("/proc/self/fd"), open_files) << "a mapping needs no open descriptor";
  EXPECT_NE(mappings().find("troupe_shared"), std::string::npos);
  EXPECT_EQ(troupe_exchange_close(x), 0);
  EXPECT_EQ(mappings().find("troupe_shared"), std::string::npos);
  EXPECT_EQ(entries("/proc/self/fd"), files);
}

TEST_F(cluster_exchange_share, invalid_arguments_of_shared_arrays_are_refused) {
  auto *x = open(0, 2), *y = open(1, 2);
  std::vector<float> v(3);
  const auto a = share(x, v);
  std::int32_t b = -1;
  const auto f32 = TROUPE_EXCHANGE_FLOAT32;
  EXPECT_EQ(troupe_exchange_share(y, "w", f32, 4, v.data(), patient, &b), TROUPE_EXCHANGE_MISMATCH);
  EXPECT_NE(std::string(troupe_exchange_error_text()).find("rank 0 has shared 3 float32"), std::string::npos)
      << troupe_exchange_error_text();
  EXPECT_EQ(troupe_exchange_share(x, "w", f32, 4, v.data(), patient, &b), TROUPE_EXCHANGE_MISMATCH);
  EXPECT_EQ(troupe_exchange_share(x, std::string(201, 'n').c_str(), f32, 3, v.data(), patient, &b), TROUPE_EXCHANGE_BAD_ARGUMENT);
  EXPECT_EQ(troupe_exchange_share(x, std::string(200, 'n').c_str(), f32, 3, v.data(), patient, &b), 0);
  EXPECT_EQ(troupe_exchange_share(x, "", f32, 3, v.data(), patient, &b), TROUPE_EXCHANGE_BAD_ARGUMENT);
  EXPECT_EQ(troupe_exchange_share(x, "z", 2, 3, v.data(), patient, &b), TROUPE_EXCHANGE_BAD_ARGUMENT);
  EXPECT_EQ(troupe_exchange_share(x, "z", f32, 0, v.data(), patient, &b), TROUPE_EXCHANGE_BAD_ARGUMENT);
  EXPECT_EQ(troupe_exchange_share(x, "z", f32, 3, nullptr, patient, &b), TROUPE_EXCHANGE_BAD_ARGUMENT);
  EXPECT_EQ(troupe_exchange_share(x, "z", f32, 3, v.data(), patient, nullptr), TROUPE_EXCHANGE_BAD_ARGUMENT);
  EXPECT_EQ(troupe_exchange_share(x, "z", f32, std::uint64_t{1} << 62, v.data(), patient, &b), TROUPE_EXCHANGE_TOO_LARGE);
  EXPECT_EQ(troupe_exchange_share(nullptr, "z", f32, 3, v.data(), patient, &b), TROUPE_EXCHANGE_BAD_ARGUMENT);
  EXPECT_EQ(troupe_exchange_shared_read(x, a, v.data(), 4, 0, patient), TROUPE_EXCHANGE_BAD_ARGUMENT);
  EXPECT_EQ(troupe_exchange_shared_read(x, 99, v.data(), 3, 0, patient), TROUPE_EXCHANGE_BAD_ARGUMENT);
  EXPECT_EQ(troupe_exchange_shared_read(x, -1, v.data(), 3, 0, patient), TROUPE_EXCHANGE_BAD_ARGUMENT);
  EXPECT_EQ(troupe_exchange_shared_read(y, a, v.data(), 3, 0, patient), TROUPE_EXCHANGE_BAD_ARGUMENT)
      << "rank 1 has not shared this array";
  EXPECT_EQ(troupe_exchange_shared_write(x, a, nullptr, 3, 0, patient), TROUPE_EXCHANGE_BAD_ARGUMENT);
  EXPECT_EQ(troupe_exchange_shared_add(x, a, v.data(), 3, 1, 2, patient), TROUPE_EXCHANGE_BAD_ARGUMENT);
  EXPECT_EQ(troupe_exchange_shared_add(x, a, v.data(), 3, 1, 0, 0), TROUPE_EXCHANGE_BAD_ARGUMENT);
  EXPECT_EQ(troupe_exchange_close(x), 0);
  EXPECT_EQ(troupe_exchange_close(y), 0);
}

TEST_F(cluster_exchange_share, shared_arrays_are_refused_after_a_fork_and_after_a_lost_daemon) {
  auto* x = open(0, 1);
  float v[2] = {1, 2};
  const auto a = share(x, std::vector<float>{1, 2});
  const pid_t child = ::fork();
  if (child == 0) {
    std::int32_t b = -1;
    const bool fine = troupe_exchange_share(x, "z", 0, 2, v, patient, &b) == TROUPE_EXCHANGE_FORKED &&
                      troupe_exchange_shared_read(x, a, v, 2, 0, patient) == TROUPE_EXCHANGE_FORKED &&
                      troupe_exchange_shared_write(x, a, v, 2, 0, patient) == TROUPE_EXCHANGE_FORKED &&
                      troupe_exchange_shared_add(x, a, v, 2, 1, 1, patient) == TROUPE_EXCHANGE_FORKED &&
                      mappings().find("troupe_shared") == std::string::npos;
    ::_exit(fine ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(read<float>(x, a, 2)[1], 2);
  kill_hard("n1");
  EXPECT_EQ(troupe_exchange_barrier(x, patient), TROUPE_EXCHANGE_DISCONNECTED);
  EXPECT_EQ(troupe_exchange_shared_read(x, a, v, 2, 0, patient), TROUPE_EXCHANGE_DISCONNECTED);
  std::int32_t b = -1;
  EXPECT_EQ(troupe_exchange_share(x, "w", 0, 2, v, patient, &b), TROUPE_EXCHANGE_DISCONNECTED);
  EXPECT_EQ(troupe_exchange_close(x), 0);
}

// A process of another user may join the session but must not map the memory. The other ranks must
// not wait for its values either.
TEST_F(cluster_exchange_share, another_users_process_is_refused_and_the_next_rank_fills_the_array) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  other_process stranger([&](const auto& ready) {
    auto* y = open(1, 2);
    if (::setresuid(65534, 65534, 65534) != 0) return 3;
    std::int32_t a = -1;
    const float v[2] = {5, 5};
    if (troupe_exchange_share(y, "w", 0, 2, v, patient, &a) != TROUPE_EXCHANGE_NOT_LOCAL) return 1;
    if (std::strstr(troupe_exchange_error_text(), "another user") == nullptr) return 2;
    ready();
    return troupe_exchange_barrier(y, patient);  // other calls still work
  });
  ASSERT_TRUE(stranger.wait_ready());
  auto* x = open(0, 2);
  const auto a = share(x, std::vector<float>{1, 2});
  EXPECT_EQ(read<float>(x, a, 2), (std::vector<float>{1, 2}));
  EXPECT_EQ(troupe_exchange_barrier(x, patient), 0) << troupe_exchange_error_text();
  EXPECT_EQ(stranger.join(), 0);
  EXPECT_EQ(troupe_exchange_close(x), 0);
}

}  // namespace
}  // namespace troupe::testing_cluster
