// Rounds of every kind with values of every type: what each rank gets, in any order of arrival,
// also if the ranks do not divide the buffer. The oracle reduces integers that are small enough for
// exact sums in every type and order; exchange_laws_test.cpp tests the order of additions.
#include <cmath>
#include <limits>
#include <numeric>

#include "ops/bf16.hpp"
#include "runtime/data/random.hpp"
#include "runtime/exchange/hub/parts.hpp"
#include "tests/runtime/exchange/exchange_desk.hpp"

namespace troupe::exchange::testing {
namespace {

template <class T>
T made(std::int64_t x) {
  if constexpr (std::is_same_v<T, bf16>)
    return to_bf16(static_cast<float>(x));
  else
    return static_cast<T>(x);
}
template <class T>
std::int64_t whole(T x) {
  if constexpr (std::is_same_v<T, bf16>)
    return static_cast<std::int64_t>(to_float(x));
  else
    return static_cast<std::int64_t>(x);
}

std::int64_t reduced(reduction how, const std::vector<std::int64_t>& v) {
  switch (how) {
    case reduction::sum: return std::accumulate(v.begin(), v.end(), std::int64_t{0});
    case reduction::mean: return std::accumulate(v.begin(), v.end(), std::int64_t{0}) / static_cast<std::int64_t>(v.size());
    case reduction::min: return *std::min_element(v.begin(), v.end());
    case reduction::max: return *std::max_element(v.begin(), v.end());
    case reduction::product: return std::accumulate(v.begin(), v.end(), std::int64_t{1}, std::multiplies<>());
  }
  return 0;
}

// Small enough for bfloat16's eight bits in sums and products of five. Sums are multiples of
// `ranks`, so that means are integers.
std::vector<std::vector<std::int64_t>> drawn(std::uint32_t ranks, std::size_t n, counter_rng& rng) {
  std::vector<std::vector<std::int64_t>> out(ranks, std::vector<std::int64_t>(n));
  for (std::size_t k = 0; k < n; ++k) {
    std::int64_t sum = 0;
    for (std::uint32_t r = 0; r + 1 < ranks; ++r) sum += out[r][k] = static_cast<std::int64_t>(rng.draw_below(5)) - 2;
    auto last = static_cast<std::int64_t>(rng.draw_below(3)) - 1;
    while ((sum + last) % static_cast<std::int64_t>(ranks) != 0) ++last;
    out[ranks - 1][k] = last;
  }
  return out;
}

// One call of all ranks in random order. Returns each rank's buffer afterwards.
template <class T>
std::vector<std::vector<std::int64_t>> all_call(element type, collective_op v, std::uint32_t argument,
                                                const std::vector<std::vector<std::int64_t>>& parts, counter_rng& rng) {
  const auto ranks = static_cast<std::uint32_t>(parts.size());
  const auto n = parts[0].size();
  desk d;
  d.open_all(ranks);
  d.declare_as(ranks, n, type);
  std::vector<std::uint32_t> order(ranks);
  std::iota(order.begin(), order.end(), 0u);
  for (std::uint32_t i = ranks; i > 1; --i) std::swap(order[i - 1], order[rng.draw_below(i)]);
  const begin b{0, v, 0, argument, meeting::with_values};
  for (const auto r : order) {
    std::vector<T> mine;
    for (const auto x : parts[r]) mine.push_back(made<T>(x));
    const auto gives = given(b, n, r, ranks);
    const auto call = d.start(desk::name(r), v, 0, argument);
    if (gives.count == 0) continue;
    const auto copy = std::make_shared<std::vector<T>>(mine.begin() + static_cast<std::ptrdiff_t>(gives.first),
                                                       mine.begin() + static_cast<std::ptrdiff_t>(gives.first + gives.count));
    d.say(desk::name(r), piece{call, 0, {copy, reinterpret_cast<const std::byte*>(copy->data()), copy->size() * sizeof(T)}});
  }
  auto out = parts;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    const auto back = d.values<T>(r);
    const auto gets = got(b, n, r, ranks);
    EXPECT_EQ(back.size(), gets.count);
    for (std::size_t k = 0; k < back.size(); ++k) out[r][gets.first + k] = whole(back[k]);
  }
  EXPECT_EQ(d.dropped.size(), 0u);
  return out;
}

template <class T>
void every_round(element type) {
  counter_rng rng(7);
  for (std::uint32_t ranks = 1; ranks <= 5; ++ranks)
    for (const std::size_t n : {std::size_t{1}, std::size_t{3}, std::size_t{4}, std::size_t{1031}}) {
      const auto parts = drawn(ranks, n, rng);
      for (std::uint32_t how = 0; how < reductions; ++how) {
        if (whole_numbers(type) && static_cast<reduction>(how) == reduction::mean) continue;
        std::vector<std::int64_t> want(n);
        for (std::size_t k = 0; k < n; ++k) {
          std::vector<std::int64_t> column;
          for (const auto& p : parts) column.push_back(p[k]);
          want[k] = reduced(static_cast<reduction>(how), column);
        }
        const auto all = all_call<T>(type, collective_op::all_reduce, how, parts, rng);
        const auto part = all_call<T>(type, collective_op::reduce_scatter, how, parts, rng);
        for (std::uint32_t r = 0; r < ranks; ++r) {
          EXPECT_EQ(all[r], want) << ranks << " ranks, reduction " << how;
          const auto mine = part_of(n, r, ranks);
          for (std::size_t k = 0; k < n; ++k)
            ASSERT_EQ(part[r][k], k >= mine.first && k < mine.first + mine.count ? want[k] : parts[r][k])
                << r << " of " << ranks << " at " << k;
        }
      }
      std::vector<std::int64_t> together(n);
      for (std::uint32_t r = 0; r < ranks; ++r) {
        const auto mine = part_of(n, r, ranks);
        for (auto k = mine.first; k < mine.first + mine.count; ++k) together[k] = parts[r][k];
      }
      const auto gathered = all_call<T>(type, collective_op::all_gather, 0, parts, rng);
      for (std::uint32_t r = 0; r < ranks; ++r) EXPECT_EQ(gathered[r], together);
      const auto root = static_cast<std::uint32_t>(rng.draw_below(ranks));
      const auto at_root = all_call<T>(type, collective_op::gather, root, parts, rng);
      const auto scattered = all_call<T>(type, collective_op::scatter, root, parts, rng);
      const auto cast = all_call<T>(type, collective_op::broadcast, root, parts, rng);
      for (std::uint32_t r = 0; r < ranks; ++r) {
        EXPECT_EQ(at_root[r], r == root ? together : parts[r]);
        EXPECT_EQ(cast[r], parts[root]);
        const auto mine = part_of(n, r, ranks);
        for (std::size_t k = 0; k < n; ++k)
          ASSERT_EQ(scattered[r][k], (k >= mine.first && k < mine.first + mine.count ? parts[root] : parts[r])[k]);
      }
    }
}

TEST(exchange_rounds, every_rank_gets_the_expected_values_for_every_type) {
  every_round<float>(element::f32);
  every_round<double>(element::f64);
  every_round<bf16>(element::bf16);
  every_round<std::int32_t>(element::i32);
  every_round<std::int64_t>(element::i64);
}

TEST(exchange_rounds, parts_cover_the_buffer_in_rank_order) {
  for (std::uint64_t n = 0; n < 40; ++n)
    for (std::uint32_t ranks = 1; ranks < 12; ++ranks) {
      std::uint64_t at = 0;
      for (std::uint32_t r = 0; r < ranks; ++r) {
        const auto p = part_of(n, r, ranks);
        EXPECT_EQ(p.first, at);
        EXPECT_LE(p.count, n / ranks + 1);
        at += p.count;
      }
      EXPECT_EQ(at, n);
    }
  EXPECT_EQ(part_of(std::uint64_t{1} << 60, 255, 256).first, (std::uint64_t{1} << 60) / 256 * 255) << "a product overflows";
}

template <class T>
T joined_two(element e, reduction how, T a, T b) {
  std::vector<T> out(1);
  const std::byte* in[] = {reinterpret_cast<const std::byte*>(&a), reinterpret_cast<const std::byte*>(&b)};
  fold_into(e, how, reinterpret_cast<std::byte*>(out.data()), in, 1);
  return out[0];
}

TEST(exchange_rounds, integers_wrap_and_nan_propagates) {
  constexpr auto most = std::numeric_limits<std::int32_t>::max();
  EXPECT_EQ(joined_two(element::i32, reduction::sum, most, 1), std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(joined_two(element::i32, reduction::product, most, 2), -2);
  EXPECT_EQ(joined_two(element::i64, reduction::sum, std::numeric_limits<std::int64_t>::max(), std::int64_t{1}),
            std::numeric_limits<std::int64_t>::min());
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto how : {reduction::sum, reduction::mean, reduction::min, reduction::max, reduction::product}) {
    EXPECT_TRUE(std::isnan(joined_two(element::f32, how, nan, 1.0F)));
    EXPECT_TRUE(std::isnan(joined_two(element::f32, how, 1.0F, nan)));
    EXPECT_TRUE(std::isnan(to_float(joined_two(element::bf16, how, to_bf16(nan), to_bf16(1)))));
    EXPECT_TRUE(std::isnan(to_float(joined_two(element::bf16, how, to_bf16(1), to_bf16(nan)))));
  }
  EXPECT_EQ(to_float(joined_two(element::bf16, reduction::sum, to_bf16(256), to_bf16(1))), 256) << "rounded to nearest even";
  EXPECT_EQ(to_float(joined_two(element::bf16, reduction::sum, to_bf16(258), to_bf16(1))), 260) << "a tie goes to even";
}

TEST(exchange_rounds, rejects_operations_that_the_type_does_not_support) {
  desk d;
  d.open_all(2);
  d.declare_as(2, 4, element::i32);
  const auto refused = [&](collective_op v, std::uint32_t argument) {
    d.start(desk::name(0), v, 0, argument);
    return d.take(0u).what;
  };
  EXPECT_EQ(refused(collective_op::all_reduce, static_cast<std::uint32_t>(reduction::mean)).text,
            "integers have no mean: buffer 'w' is 4 int32");
  EXPECT_EQ(refused(collective_op::reduce_scatter, 5).code, code::bad_argument);
  EXPECT_EQ(refused(collective_op::exchange, 0).text, "exchange and centre need float32 or float64: buffer 'w' is 4 int32");
  for (const auto v : {collective_op::broadcast, collective_op::gather, collective_op::scatter})
    EXPECT_EQ(refused(v, 2).code, code::bad_argument);
  EXPECT_FALSE(d.has_reply(desk::name(1)));
  d.say(desk::name(0), share{d.next(desk::name(0)), "x", element::i64, 4});
  EXPECT_EQ(d.take(0u).what.code, code::bad_argument);
}

TEST(exchange_rounds, reports_both_calls_when_ranks_disagree) {
  desk d;
  d.open_all(2);
  d.declare_as(2, 4, element::f32);
  d.start(desk::name(0), collective_op::gather, 0, 0);
  d.start(desk::name(1), collective_op::gather, 0, 1);
  EXPECT_EQ(d.take(0u).what.text, "rank 1 calls gather of 'w' to rank 1 while rank 0 is in gather of 'w' to rank 0");
  EXPECT_EQ(d.take(1u).what.code, code::mismatch);
  d.start_in_memory(0, collective_op::all_gather, 0);
  d.start(desk::name(1), collective_op::all_gather, 0, 0);
  EXPECT_EQ(d.take(0u).what.text, "rank 1 calls all_gather of 'w' while rank 0 is in all_gather in shared memory of 'w'");
}

TEST(exchange_rounds, the_hub_assigns_the_lowest_free_rank) {
  desk d;
  ASSERT_EQ(d.open(1, 3), code::ok);
  const auto enters = [&](const std::string& client) {
    d.calls[client] = 0;
    d.say(client, open_session{protocol, "s", any_rank, 3, averaging_method::average, 0});
    return d.take(client).what;
  };
  EXPECT_EQ(enters("x").value, 0u);
  EXPECT_EQ(enters("y").value, 2u);
  const auto full = enters("z");
  EXPECT_EQ(full.code, code::rank_taken);
  EXPECT_NE(full.text.find("all ranks are taken"), std::string::npos) << full.text;
  d.gone("x");
  EXPECT_EQ(enters("z").value, 0u) << "also the rank of a lost member";
}

// Every worker's change since it last received the centre is added to the centre once, in any order
// of the workers.
TEST(exchange_rounds, asgd_adds_every_workers_change_once) {
  counter_rng rng(5);
  constexpr std::uint32_t ranks = 3;
  desk d;
  d.open_all(ranks, averaging_method::asgd);
  d.declare_as(ranks, 2, element::f64);
  std::vector<std::vector<double>> had(ranks);
  std::vector<double> centre = {4, -2};
  for (std::uint32_t r = 0; r < ranks; ++r) {
    d.call(r, collective_op::exchange, r == 0 ? centre : std::vector<double>{9, 9}, 1);
    const auto back = d.values<double>(r);
    EXPECT_EQ(back.empty(), r == 0) << "the first values become the centre";
    had[r] = centre;
    if (r > 0) {
      EXPECT_EQ(back, centre);
    }
  }
  for (int step = 0; step < 200; ++step) {
    const auto r = static_cast<std::uint32_t>(rng.draw_below(ranks));
    const auto x = static_cast<double>(rng.draw_below(16)) / 8 - 1, y = static_cast<double>(rng.draw_below(16)) / 8;
    d.call(r, collective_op::exchange, std::vector<double>{x, y}, 0);
    centre[0] += x;
    centre[1] += y;
    had[r] = d.values<double>(r);
    ASSERT_EQ(had[r], centre) << "eighths add exactly";
  }
  d.gone(desk::name(2));
  ASSERT_EQ(d.open(2, 3, averaging_method::asgd), code::ok);
  d.say(desk::name(2), declare{d.next(desk::name(2)), "w", element::f64, 2});
  d.take(2u);
  d.call(2, collective_op::exchange, std::vector<double>{7, 7}, 1);
  EXPECT_EQ(d.values<double>(2), centre) << "a new worker receives the centre and adds nothing";
}

}  // namespace
}  // namespace troupe::exchange::testing
