// Arithmetic of the exchange: the same bits for every order of arrival, and EASGD's invariants
// (Zhang, Choromanska, LeCun 2015).
#include <cmath>
#include <limits>
#include <numeric>

#include "runtime/data/random.hpp"
#include "tests/runtime/exchange/exchange_desk.hpp"

namespace troupe::exchange::testing {
namespace {

template <class T>
std::vector<T> random_values(std::size_t n, counter_rng& rng) {
  std::vector<T> v(n);
  for (auto& x : v) {
    const auto unit = static_cast<double>(rng.next() >> 11) / 9007199254740992.0;
    x = static_cast<T>((unit - 0.5) * std::pow(10.0, static_cast<double>(rng.draw_below(9)) - 4));  // sums round
  }
  return v;
}

template <class T>
std::vector<std::vector<T>> random_parts(std::uint32_t ranks, std::size_t n, counter_rng& rng) {
  std::vector<std::vector<T>> out;
  for (std::uint32_t r = 0; r < ranks; ++r) out.push_back(random_values<T>(n, rng));
  return out;
}

// The binary tree over [from, to), split at multiples of powers of two.
template <class T>
T tree_sum(const std::vector<std::vector<T>>& v, std::size_t k, std::size_t from, std::size_t width) {
  if (width == 1) return v[from][k];
  const auto half = width / 2;
  const T left = tree_sum(v, k, from, half);
  return from + half < v.size() ? left + tree_sum(v, k, from + half, half) : left;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <class T>
void reduce_in_every_order(reduction how) {
  counter_rng rng(3);
  constexpr std::size_t n = 37;
  for (std::uint32_t ranks = 1; ranks <= 5; ++ranks) {
    const auto parts = random_parts<T>(ranks, n, rng);
    std::vector<T> expected(n);
    for (std::size_t k = 0; k < n; ++k) {
      expected[k] = tree_sum(parts, k, 0, 8);
      if (how == reduction::mean) expected[k] /= static_cast<T>(ranks);
    }
    desk d;
    d.open_all(ranks);
    d.declare_all<T>(ranks, n);
    std::vector<std::uint32_t> order(ranks);
    std::iota(order.begin(), order.end(), 0u);
    do {
      for (auto r : order) {
        for (auto other : order) ASSERT_FALSE(d.has_reply(desk::name(other))) << "answered before every rank had given its part";
        d.call(r, collective_op::all_reduce, parts[r], static_cast<std::uint32_t>(how));
      }
      for (auto r : order) ASSERT_TRUE(same_bits(d.values<T>(r), expected)) << ranks << " ranks, rank " << r;
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST(exchange, all_reduce_gives_every_rank_the_same_bits_in_any_order_of_arrival) {
  reduce_in_every_order<float>(reduction::sum);
  reduce_in_every_order<double>(reduction::sum);
  reduce_in_every_order<float>(reduction::mean);
  reduce_in_every_order<double>(reduction::mean);
}

template <class T>
void fold_out_of_place(element e) {
  counter_rng rng(11);
  for (std::uint32_t ranks = 1; ranks <= 9; ++ranks)
    for (const std::size_t n : {std::size_t{1}, std::size_t{15}, std::size_t{1024}, std::size_t{5001}}) {
      auto parts = random_parts<T>(ranks, n, rng);
      std::vector<T> expected(n);
      for (std::size_t k = 0; k < n; ++k) expected[k] = tree_sum(parts, k, 0, 16);
      for (std::uint32_t into = 0; into <= ranks; ++into) {  // a separate block, or one of the inputs
        auto mine = parts;
        std::vector<T> own(n);
        std::vector<const std::byte*> in;
        for (const auto& p : mine) in.push_back(reinterpret_cast<const std::byte*>(p.data()));
        auto& out = into == ranks ? own : mine[into];
        fold_into(e, reduction::sum, reinterpret_cast<std::byte*>(out.data()), in, n);
        ASSERT_TRUE(same_bits(out, expected)) << ranks << " ranks into " << into;
        for (std::uint32_t r = 0; r < ranks; ++r) {
          EXPECT_TRUE(r == into || same_bits(mine[r], parts[r])) << "the other inputs change";
        }
      }
      std::vector<T> mean(n);
      std::vector<const std::byte*> in;
      for (const auto& p : parts) in.push_back(reinterpret_cast<const std::byte*>(p.data()));
      fold_into(e, reduction::mean, reinterpret_cast<std::byte*>(mean.data()), in, n);
      for (auto& x : expected) x /= static_cast<T>(ranks);
      ASSERT_TRUE(same_bits(mean, expected));
    }
}

TEST(exchange, fold_into_gives_the_same_bits_for_any_output_block) {
  fold_out_of_place<float>(element::f32);
  fold_out_of_place<double>(element::f64);
}

TEST(exchange, all_reduce_accepts_interleaved_pieces_and_answers_in_pieces) {
  counter_rng rng(4);
  constexpr std::uint32_t ranks = 3;
  const std::size_t n = piece_bytes / sizeof(float) * 2 + 5;
  const auto parts = random_parts<float>(ranks, n, rng);
  desk d;
  d.open_all(ranks);
  d.declare_all<float>(ranks, n);
  std::vector<std::uint64_t> call(ranks);
  std::vector<std::size_t> given(ranks, 0);
  for (std::uint32_t r = 0; r < ranks; ++r) call[r] = d.start(desk::name(r), collective_op::all_reduce);
  for (std::size_t left = n * ranks; left > 0;) {
    const auto r = static_cast<std::uint32_t>(rng.draw_below(ranks));
    const auto some = std::min<std::size_t>(n - given[r], rng.draw_below(piece_bytes / sizeof(float)) + 1);
    if (some == 0) continue;
    d.give(desk::name(r), call[r], parts[r], given[r], given[r] + some);
    given[r] += some;
    left -= some;
  }
  std::vector<float> expected(n);
  for (std::size_t k = 0; k < n; ++k) expected[k] = tree_sum(parts, k, 0, 4);
  for (std::uint32_t r = 0; r < ranks; ++r) EXPECT_TRUE(same_bits(d.values<float>(r), expected));
}

TEST(exchange, average_is_the_mean_and_broadcast_is_the_roots_values) {
  counter_rng rng(5);
  desk d;
  d.open_all(4);
  d.declare_all<double>(4, 8);
  const auto parts = random_parts<double>(4, 8, rng);
  for (std::uint32_t r : {2u, 0u, 3u, 1u}) d.call(r, collective_op::exchange, parts[r]);
  std::vector<double> mean(8);
  for (std::size_t k = 0; k < 8; ++k) mean[k] = tree_sum(parts, k, 0, 4) / 4;
  for (std::uint32_t r = 0; r < 4; ++r) EXPECT_TRUE(same_bits(d.values<double>(r), mean));
  for (std::uint32_t r : {0u, 1u, 3u}) d.start(desk::name(r), collective_op::broadcast, 0, 2);
  d.call(2, collective_op::broadcast, parts[2], 2);
  for (std::uint32_t r : {0u, 1u, 3u}) EXPECT_TRUE(same_bits(d.values<double>(r), parts[2]));
  EXPECT_TRUE(d.values<double>(2).empty()) << "the root receives no values";
}

// Equations 5 and 6: the sum of workers and centre is invariant for any interleaving of steps.
template <class T>
void keeps_the_sum(averaging_method how, double tolerance) {
  counter_rng rng(6);
  constexpr std::size_t n = 16;
  for (std::uint32_t ranks = 1; ranks <= 4; ++ranks)
    for (const double alpha : {0.1, 0.225, 0.5, 0.9}) {
      desk d;
      d.open_all(ranks, how, alpha);
      d.declare_all<T>(ranks, n);
      std::vector<std::vector<T>> w = random_parts<T>(ranks, n, rng);
      const auto all_step = [&] {
        for (std::uint32_t r = 0; r < ranks; ++r) d.call(r, collective_op::exchange, w[r]);
        for (std::uint32_t r = 0; r < ranks; ++r) d.apply(r, w[r]);
      };
      const auto step = [&] {
        if (how == averaging_method::easgd_sync) return all_step();
        const auto r = static_cast<std::uint32_t>(rng.draw_below(ranks));
        d.pull_towards(r, w[r]);
      };
      const auto total = [&] {
        d.start(desk::name(0), collective_op::centre);
        auto sum = d.values<T>(0);
        for (const auto& v : w)
          for (std::size_t k = 0; k < n; ++k) sum[k] += v[k];
        return sum;
      };
      step();  // creates the centre
      const auto before = total();
      for (int i = 0; i < 50; ++i) step();
      const auto after = total();
      for (std::size_t k = 0; k < n; ++k) {
        double scale = 0;
        for (const auto& v : w) scale += std::abs(static_cast<double>(v[k]));
        ASSERT_NEAR(before[k], after[k], tolerance * (scale + std::abs(static_cast<double>(before[k])) + 1e-3))
            << ranks << " " << alpha;
      }
    }
}

TEST(exchange, easgd_keeps_the_sum_of_workers_and_centre) {
  keeps_the_sum<double>(averaging_method::easgd, 1e-13);
  keeps_the_sum<float>(averaging_method::easgd, 1e-4);
}
TEST(exchange, easgd_sync_keeps_the_sum_of_workers_and_centre) {
  keeps_the_sum<double>(averaging_method::easgd_sync, 1e-13);
  keeps_the_sum<float>(averaging_method::easgd_sync, 1e-4);
}

TEST(exchange, easgd_follows_its_formula) {
  desk d;
  d.open_all(2, averaging_method::easgd, 0.5);
  d.declare_all<double>(2, 1);
  std::vector<double> a{8}, b{0};
  d.pull_towards(0, a);  // its values become the centre
  EXPECT_EQ(a[0], 8);
  d.pull_towards(1, b);  // d = .5 (0 - 8) = -4
  EXPECT_EQ(b[0], 4);
  d.start(desk::name(0), collective_op::centre);
  EXPECT_EQ(d.values<double>(0)[0], 4);
  d.pull_towards(0, a);  // d = .5 (8 - 4) = 2
  EXPECT_EQ(a[0], 6);
  d.start(desk::name(1), collective_op::centre);
  EXPECT_EQ(d.values<double>(1)[0], 6);
}

TEST(exchange, easgd_sync_uses_one_centre_in_any_order_of_arrival) {
  std::vector<std::vector<std::vector<double>>> results;
  std::vector<std::uint32_t> order{0, 1, 2};
  do {
    desk d;
    d.open_all(3, averaging_method::easgd_sync, 0.3);
    d.declare_all<double>(3, 4);
    counter_rng same(8);
    auto w = random_parts<double>(3, 4, same);
    const auto c = w[0];
    const auto w0 = w;
    for (auto r : order) d.call(r, collective_op::exchange, w[r]);
    for (auto r : order) d.apply(r, w[r]);
    for (std::uint32_t r = 0; r < 3; ++r)
      for (std::size_t k = 0; k < 4; ++k) EXPECT_EQ(w[r][k], w0[r][k] - 0.3 * (w0[r][k] - c[k]));
    d.start(desk::name(0), collective_op::centre);
    w.push_back(d.values<double>(0));
    results.push_back(w);
  } while (std::next_permutation(order.begin(), order.end()));
  for (const auto& r : results)
    for (std::size_t i = 0; i < r.size(); ++i) EXPECT_TRUE(same_bits(r[i], results[0][i]));
}

TEST(exchange, alpha_zero_changes_neither_workers_nor_centre) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto how : {averaging_method::easgd, averaging_method::easgd_sync}) {
    desk d;
    d.open_all(2, how, 0);
    d.declare_all<double>(2, 5);
    const std::vector<std::vector<double>> before{{1, -0.0, inf, nan, 1e300}, {-inf, 0.0, 3, nan, -1e300}};
    auto w = before;
    for (int i = 0; i < 3; ++i) {
      for (std::uint32_t r = 0; r < 2; ++r) d.call(r, collective_op::exchange, w[r]);
      for (std::uint32_t r = 0; r < 2; ++r) d.apply(r, w[r]);
    }
    for (std::uint32_t r = 0; r < 2; ++r) EXPECT_TRUE(same_bits(w[r], before[r]));
    d.start(desk::name(1), collective_op::centre);
    EXPECT_TRUE(same_bits(d.values<double>(1), before[0])) << "the centre changes";
  }
}

}  // namespace
}  // namespace troupe::exchange::testing
