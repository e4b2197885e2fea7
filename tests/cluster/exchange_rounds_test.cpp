// Collective rounds of every operation and element type through libtroupe_exchange: small ones in
// the daemon, large ones in shared memory. Also asynchronous calls, ranks that the daemon assigns,
// and ASGD.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <fstream>
#include <numeric>

#include "ops/bf16.hpp"
#include "runtime/exchange/client/team.hpp"
#include "tests/cluster/exchange_fixture.hpp"

namespace troupe::testing_cluster {
namespace {

using exchange::team;

template <class T>
struct type_of;
template <>
struct type_of<float> {
  static constexpr int value = TROUPE_EXCHANGE_FLOAT32;
};
template <>
struct type_of<double> {
  static constexpr int value = TROUPE_EXCHANGE_FLOAT64;
};
template <>
struct type_of<bf16> {
  static constexpr int value = TROUPE_EXCHANGE_BFLOAT16;
};
template <>
struct type_of<std::int32_t> {
  static constexpr int value = TROUPE_EXCHANGE_INT32;
};
template <>
struct type_of<std::int64_t> {
  static constexpr int value = TROUPE_EXCHANGE_INT64;
};

template <class T>
T made(int x) {
  if constexpr (std::is_same_v<T, bf16>)
    return to_bf16(static_cast<float>(x));
  else
    return static_cast<T>(x);
}
template <class T>
int whole(T x) {
  if constexpr (std::is_same_v<T, bf16>)
    return static_cast<int>(to_float(x));
  else
    return static_cast<int>(x);
}

int drawn(int rank, std::size_t k) { return static_cast<int>((k * 7 + static_cast<std::size_t>(rank) * 13) % 5) - 2; }

int reduced(int how, int ranks, std::size_t k) {
  int out = drawn(0, k);
  for (int r = 1; r < ranks; ++r) {
    const int x = drawn(r, k);
    if (how == TROUPE_EXCHANGE_SUM) out += x;
    if (how == TROUPE_EXCHANGE_MIN) out = std::min(out, x);
    if (how == TROUPE_EXCHANGE_MAX) out = std::max(out, x);
    if (how == TROUPE_EXCHANGE_PRODUCT) out *= x;
  }
  return out;
}

class cluster_exchange_rounds : public cluster_exchange {
 protected:
  template <class T>
  static void holds(const std::vector<T>& v, const std::function<int(std::size_t)>& want, const char* call) {
    for (std::size_t k = 0; k < v.size(); ++k)
      if (whole(v[k]) != want(k)) {
        ADD_FAILURE() << call << ": " << whole(v[k]) << " at " << k << " of " << v.size() << ", not " << want(k);
        return;
      }
  }
  template <class T>
  static void every_round(int r, int size, troupe_exchange* x, std::size_t n) {
    const auto b = declare(x, n, type_of<T>::value, ("w" + std::to_string(n)).c_str());
    std::uint64_t first = 0, count = 0;
    ASSERT_EQ(troupe_exchange_part(n, r, size, &first, &count), 0);
    const auto own = [&](std::size_t k) { return k >= first && k < first + count; };
    const auto owner = [&](std::size_t k) {
      for (int other = 0; other < size; ++other) {
        std::uint64_t from = 0, many = 0;
        troupe_exchange_part(n, other, size, &from, &many);
        if (k >= from && k < from + many) return other;
      }
      return -1;
    };
    std::vector<int> whose(n);
    for (std::size_t k = 0; k < n; ++k) whose[k] = owner(k);
    std::vector<T> v(n);
    const auto fill = [&] {
      for (std::size_t k = 0; k < n; ++k) v[k] = made<T>(drawn(r, k));
    };
    for (const int how : {TROUPE_EXCHANGE_SUM, TROUPE_EXCHANGE_MIN, TROUPE_EXCHANGE_MAX, TROUPE_EXCHANGE_PRODUCT}) {
      fill();
      ASSERT_EQ(troupe_exchange_all_reduce(x, b, v.data(), n, how, patient), 0) << troupe_exchange_error_text();
      holds(
          v, [&](std::size_t k) { return reduced(how, size, k); }, "all_reduce");
      fill();
      ASSERT_EQ(troupe_exchange_reduce_scatter(x, b, v.data(), n, how, patient), 0) << troupe_exchange_error_text();
      holds(
          v, [&](std::size_t k) { return own(k) ? reduced(how, size, k) : drawn(r, k); }, "reduce_scatter");
    }
    fill();
    ASSERT_EQ(troupe_exchange_all_gather(x, b, v.data(), n, patient), 0) << troupe_exchange_error_text();
    holds(
        v, [&](std::size_t k) { return drawn(whose[k], k); }, "all_gather");
    for (int root = 0; root < size; ++root) {
      fill();
      ASSERT_EQ(troupe_exchange_gather(x, b, v.data(), n, root, patient), 0) << troupe_exchange_error_text();
      holds(
          v, [&](std::size_t k) { return drawn(r == root ? whose[k] : r, k); }, "gather");
      fill();
      ASSERT_EQ(troupe_exchange_scatter(x, b, v.data(), n, root, patient), 0) << troupe_exchange_error_text();
      holds(
          v, [&](std::size_t k) { return drawn(own(k) ? root : r, k); }, "scatter");
      fill();
      ASSERT_EQ(troupe_exchange_broadcast(x, b, v.data(), n, root, patient), 0) << troupe_exchange_error_text();
      holds(
          v, [&](std::size_t k) { return drawn(root, k); }, "broadcast");
    }
  }
  template <class T>
  void every_size(const std::vector<int>& sizes) {
    for (const int size : sizes)
      ranks(size, TROUPE_EXCHANGE_AVERAGE, 0, [&](int r, troupe_exchange* x) {
        const auto large = team::worth / sizeof(T);
        for (const std::size_t n : {std::size_t{1}, std::size_t{101}, large, 3 * large + 7}) every_round<T>(r, size, x, n);
      });
  }
};

TEST_F(cluster_exchange_rounds, every_collective_op_gives_every_rank_its_correct_result) {
  every_size<float>({1, 2, 3, 5});
  every_size<double>({2, 3});
  every_size<bf16>({2, 3});
  every_size<std::int32_t>({3, 4});
  every_size<std::int64_t>({2});
}

TEST_F(cluster_exchange_rounds, invalid_arguments_are_refused_for_small_and_large_buffers) {
  ranks(2, TROUPE_EXCHANGE_AVERAGE, 0, [&](int, troupe_exchange* x) {
    for (const std::uint64_t n : {std::uint64_t{10}, team::worth}) {
      std::vector<std::int32_t> v(n);
      const auto b = declare(x, n, TROUPE_EXCHANGE_INT32, ("i" + std::to_string(n)).c_str());
      const auto refused = [&](int code) { EXPECT_EQ(code, TROUPE_EXCHANGE_BAD_ARGUMENT) << n; };
      refused(troupe_exchange_all_reduce(x, b, v.data(), n, TROUPE_EXCHANGE_MEAN, patient));
      refused(troupe_exchange_reduce_scatter(x, b, v.data(), n, 5, patient));
      refused(troupe_exchange_gather(x, b, v.data(), n, 2, patient));
      refused(troupe_exchange_scatter(x, b, v.data(), n, -1, patient));
      refused(troupe_exchange_exchange(x, b, v.data(), n, patient));
      std::int32_t array = 0;
      refused(troupe_exchange_share(x, "a", TROUPE_EXCHANGE_INT32, n, v.data(), patient, &array));
    }
    std::uint64_t first = 0, count = 0;
    EXPECT_EQ(troupe_exchange_part(10, 2, 2, &first, &count), TROUPE_EXCHANGE_BAD_ARGUMENT);
    EXPECT_EQ(troupe_exchange_part(10, 0, 2, nullptr, &count), TROUPE_EXCHANGE_BAD_ARGUMENT);
  });
}

TEST_F(cluster_exchange_rounds, started_calls_run_in_order_and_can_be_waited_for_once) {
  constexpr std::uint64_t small = 100, large = team::worth / sizeof(float);
  ranks(3, TROUPE_EXCHANGE_AVERAGE, 0, [&](int r, troupe_exchange* x) {
    const auto s = declare(x, small, TROUPE_EXCHANGE_FLOAT32, "s"), l = declare(x, large, TROUPE_EXCHANGE_FLOAT32, "l");
    std::vector<std::vector<float>> v;
    std::vector<std::int64_t> request;
    for (int i = 0; i < 40; ++i) {
      v.emplace_back(i % 2 ? large : small, static_cast<float>(r + i));
      std::int64_t number = 0;
      ASSERT_EQ(troupe_exchange_start(x, TROUPE_EXCHANGE_CALL_ALL_REDUCE, i % 2 ? l : s, v.back().data(), v.back().size(),
                                      TROUPE_EXCHANGE_SUM, patient, &number),
                0);
      request.push_back(number);
    }
    for (int i = 39; i >= 0; --i) {
      ASSERT_EQ(troupe_exchange_wait(x, request[static_cast<std::size_t>(i)], patient), 0) << troupe_exchange_error_text();
      const auto& got = v[static_cast<std::size_t>(i)];
      EXPECT_TRUE(std::all_of(got.begin(), got.end(), [&](float f) { return f == static_cast<float>(3 + 3 * i); })) << i;
      EXPECT_EQ(troupe_exchange_wait(x, request[static_cast<std::size_t>(i)], patient), TROUPE_EXCHANGE_BAD_ARGUMENT)
          << "waited for twice";
    }
    std::int64_t number = 0;
    std::int32_t done = 7;
    EXPECT_EQ(troupe_exchange_start(x, 4, s, v[0].data(), small, 0, patient, &number), TROUPE_EXCHANGE_BAD_ARGUMENT)
        << "a barrier cannot be started";
    EXPECT_EQ(troupe_exchange_start(x, 9, s, v[0].data(), small, 0, patient, &number), TROUPE_EXCHANGE_BAD_ARGUMENT);
    EXPECT_EQ(troupe_exchange_start(x, 1, s, nullptr, small, 0, patient, &number), TROUPE_EXCHANGE_BAD_ARGUMENT);
    EXPECT_EQ(troupe_exchange_test(x, 12345, &done), TROUPE_EXCHANGE_BAD_ARGUMENT);
  });
}

TEST_F(cluster_exchange_rounds, a_request_past_its_deadline_times_out_and_the_session_continues) {
  auto *x = open(0, 2), *y = open(1, 2);
  const auto b = declare(x, 10), c = declare(y, 10);
  std::vector<float> v(10, 1), w(10, 2);
  std::int64_t late = 0, next = 0;
  ASSERT_EQ(troupe_exchange_start(x, TROUPE_EXCHANGE_CALL_ALL_REDUCE, b, v.data(), 10, TROUPE_EXCHANGE_SUM, 2000, &late), 0);
  EXPECT_EQ(troupe_exchange_wait(x, late, 1), TROUPE_EXCHANGE_TIMEOUT) << "the call is still running";
  std::int32_t done = 1;
  EXPECT_EQ(troupe_exchange_test(x, late, &done), 0);
  EXPECT_EQ(done, 0);
  EXPECT_EQ(troupe_exchange_wait(x, late, patient), TROUPE_EXCHANGE_TIMEOUT) << "the call itself timed out";
  EXPECT_EQ(troupe_exchange_wait(x, late, patient), TROUPE_EXCHANGE_BAD_ARGUMENT);
  EXPECT_EQ(v[3], 1) << "the call was withdrawn and the buffer is unchanged";
  // The daemon answers in order: when this call returns it has also handled the cancellation of the
  // late call. Otherwise rank 1 could meet the late call.
  EXPECT_EQ(declare(x, 10), b);
  ASSERT_EQ(troupe_exchange_start(x, TROUPE_EXCHANGE_CALL_ALL_REDUCE, b, v.data(), 10, TROUPE_EXCHANGE_SUM, patient, &next), 0);
  EXPECT_EQ(troupe_exchange_all_reduce(y, c, w.data(), 10, TROUPE_EXCHANGE_SUM, patient), 0);
  EXPECT_EQ(troupe_exchange_wait(x, next, patient), 0);
  EXPECT_EQ(v[3], 3);
  EXPECT_EQ(troupe_exchange_close(x), 0);
  EXPECT_EQ(troupe_exchange_close(y), 0);
}

// Returns when the thread sleeps, that is when it blocks in the call under test.
void wait_asleep(const std::atomic<pid_t>& thread) {
  while (true) {
    std::ifstream f("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string line;
    std::getline(f, line);
    const auto name_ends = line.rfind(')');
    if (thread != 0 && name_ends != std::string::npos && line[name_ends + 2] == 'S') return;
    std::this_thread::yield();
  }
}

// Closing a session does not wait for other ranks and wakes the threads that wait for its calls.
TEST_F(cluster_exchange_rounds, closing_a_session_ends_started_calls_and_wakes_their_waiters) {
  for (const std::uint64_t n : {std::uint64_t{10}, team::worth / sizeof(float)}) {
    auto *x = open(0, 2), *y = open(1, 2);
    const auto b = declare(x, n);
    std::vector<float> v(n, 1), w(n, 1);
    std::int64_t first = 0, second = 0;
    ASSERT_EQ(troupe_exchange_start(x, TROUPE_EXCHANGE_CALL_ALL_REDUCE, b, v.data(), n, TROUPE_EXCHANGE_SUM, patient, &first), 0);
    ASSERT_EQ(troupe_exchange_start(x, TROUPE_EXCHANGE_CALL_ALL_REDUCE, b, w.data(), n, TROUPE_EXCHANGE_SUM, patient, &second), 0);
    std::atomic<int> received{-1}, of_first{-1};
    std::atomic<pid_t> waiters[2] = {0, 0};
    std::thread waiter([&] {
      waiters[0] = ::gettid();
      received = troupe_exchange_wait(x, second, patient);
    });
    std::thread owner([&] {
      waiters[1] = ::gettid();
      of_first = troupe_exchange_wait(x, first, patient);
      EXPECT_EQ(v[0], 1);
      std::vector<float>().swap(v);  // the library no longer uses the buffer
    });
    for (const auto& thread : waiters) wait_asleep(thread);
    std::int32_t done = 1;
    EXPECT_EQ(troupe_exchange_test(x, second, &done), 0);
    const auto begun = clock::now();
    EXPECT_EQ(troupe_exchange_close(x), 0);
    waiter.join();
    owner.join();
    EXPECT_LT(clock::now() - begun, 5s);
    EXPECT_EQ(received, TROUPE_EXCHANGE_CLOSED);
    EXPECT_EQ(of_first, TROUPE_EXCHANGE_CLOSED);
    EXPECT_EQ(troupe_exchange_close(y), 0);
  }
}

TEST_F(cluster_exchange_rounds, the_daemon_assigns_free_ranks_to_sessions_without_one) {
  std::vector<troupe_exchange*> all;
  for (int i = 0; i < 3; ++i) all.push_back(open(TROUPE_EXCHANGE_ANY_RANK, 3));
  std::vector<int> got;
  for (auto* x : all) got.push_back(troupe_exchange_rank(x));
  EXPECT_EQ(got, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(troupe_exchange_rank(nullptr), -1);
  const auto o = options(TROUPE_EXCHANGE_ANY_RANK, 3);
  troupe_exchange* none = nullptr;
  EXPECT_EQ(troupe_exchange_open(&o, &none), TROUPE_EXCHANGE_RANK_TAKEN);
  std::vector<std::thread> threads;
  for (auto* x : all)
    threads.emplace_back([x] {
      const auto b = declare(x, 3);
      std::vector<float> v(3, static_cast<float>(troupe_exchange_rank(x)));
      EXPECT_EQ(troupe_exchange_all_gather(x, b, v.data(), 3, patient), 0);
      EXPECT_EQ(v, (std::vector<float>{0, 1, 2}));
      EXPECT_EQ(troupe_exchange_barrier(x, patient), 0);
      EXPECT_EQ(troupe_exchange_close(x), 0);
    });
  for (auto& t : threads) t.join();
}

// Each rank adds 1 to its own values. At the end the centre contains every addition exactly once.
TEST_F(cluster_exchange_rounds, the_asgd_centre_contains_every_ranks_additions_once) {
  constexpr int size = 3, steps = 50;
  ranks(size, TROUPE_EXCHANGE_ASGD, 0, [&](int r, troupe_exchange* x) {
    const auto b = declare(x, 4);
    std::vector<float> w(4, r == 0 ? 5.0F : 77.0F);
    if (r > 0) {
      ASSERT_EQ(troupe_exchange_barrier(x, patient), 0);
    }
    ASSERT_EQ(troupe_exchange_exchange(x, b, w.data(), 4, patient), 0) << troupe_exchange_error_text();
    if (r == 0) {
      ASSERT_EQ(troupe_exchange_barrier(x, patient), 0);
    }
    EXPECT_LT(w[0], 77.0F) << "a new rank starts from the centre";
    for (int s = 0; s < steps; ++s) {
      for (auto& e : w) e += 1;
      ASSERT_EQ(troupe_exchange_exchange(x, b, w.data(), 4, patient), 0);
    }
    ASSERT_EQ(troupe_exchange_barrier(x, patient), 0);
    ASSERT_EQ(troupe_exchange_centre(x, b, w.data(), 4, patient), 0);
    EXPECT_EQ(w, std::vector<float>(4, 5.0F + size * steps));
  });
}

}  // namespace
}  // namespace troupe::testing_cluster
