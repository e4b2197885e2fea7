// Philox streams, fillers and dropout masks.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "ops/filler.hpp"
#include "tests/ops/support.hpp"

namespace troupe {
namespace {

using test::values_of;

// Random123's known answers (kat_vectors, philox4x32 10) for a zero counter and key, and for all
// ones in c2, c3 and the key.
TEST(philox, gives_the_known_answers) {
  for (const auto& dev : test::all_devices()) {
    tensor t = test::empty(*dev, {64});
    dev->fill_uniform({}, 0, 1, t);
    const std::uint32_t expected[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    for (int i = 0; i < 4; ++i) EXPECT_EQ(static_cast<std::uint32_t>(t.data<double>()[16 * i] * 4294967296.0), expected[i]);
  }
}

TEST(philox, is_the_same_on_every_instruction_set_and_for_every_length) {
  const auto base = make_cpu_device("baseline");
  tensor uniform = test::empty(*base, {1000}, dtype::f32), normal = test::empty(*base, {1000}, dtype::f32);
  base->fill_uniform({7, 8, 9}, -1, 2, uniform);
  base->fill_gaussian({7, 8, 9}, 1, 3, normal);
  for (const auto& dev : test::all_devices())
    for (std::int64_t n : {1, 63, 65, 1000}) {
      tensor a = test::empty(*dev, {n}, dtype::f32), b = test::empty(*dev, {n}, dtype::f32);
      dev->fill_uniform({7, 8, 9}, -1, 2, a);
      dev->fill_gaussian({7, 8, 9}, 1, 3, b);
      EXPECT_EQ(std::memcmp(a.raw(), uniform.raw(), a.bytes()), 0);
      EXPECT_EQ(std::memcmp(b.raw(), normal.raw(), b.bytes()), 0);
    }
}

struct moments {
  double mean = 0, variance = 0, low = 1e300, high = -1e300;
};
moments moments_of(const tensor& t) {
  moments m;
  const auto v = values_of(t);
  for (double x : v) m.mean += x / static_cast<double>(v.size());
  for (double x : v) {
    m.variance += (x - m.mean) * (x - m.mean) / static_cast<double>(v.size());
    m.low = std::min(m.low, x);
    m.high = std::max(m.high, x);
  }
  return m;
}

tensor filled(device& d, filler_spec spec, std::uint64_t seed = 1, std::uint32_t layer = 0, std::uint32_t param = 0,
              dtype t = dtype::f64) {
  tensor x = tensor::declare(shape{50, 20, 10, 10}, t);  // fan_in 2000, fan_out 5000
  fill_param(d, {.name = "weight", .dims = x.dims(), .filler = std::move(spec)}, seed, layer, param, x);
  return x;
}

TEST(filler, has_the_named_distribution) {
  const auto dev = make_cpu_device();
  const auto check = [&](filler_spec spec, double mean, double variance, double bound) {
    const moments m = moments_of(filled(*dev, spec));
    const double deviation = std::sqrt(variance);
    EXPECT_NEAR(m.mean, mean, 5 * deviation / std::sqrt(1e5) + 1e-9) << spec.kind;
    EXPECT_NEAR(m.variance, variance, 0.03 * variance + 1e-9) << spec.kind;
    EXPECT_LE(std::max(std::fabs(m.low), std::fabs(m.high)), bound) << spec.kind;
  };
  check({"constant", {{{"value", 0.5}}}}, 0.5, 0.0, 0.5);
  check({"uniform", {{{"min", -1.0}, {"max", 3.0}}}}, 1.0, 16.0 / 12, 3.0);
  check({"gaussian", {{{"mean", 2.0}, {"std", 0.5}}}}, 2.0, 0.25, 5.0);
  check({"xavier", {}}, 0.0, 1.0 / 2000, std::sqrt(3.0 / 2000));
  check({"xavier", {{{"norm", std::string("fan_out")}}}}, 0.0, 1.0 / 5000, std::sqrt(3.0 / 5000));
  check({"msra", {}}, 0.0, 2.0 / 2000, 1.0);
  check({"msra", {{{"norm", std::string("average")}}}}, 0.0, 2.0 / 3500, 1.0);
}

TEST(filler, bilinear_enlarges_linearly) {
  const auto dev = make_cpu_device();
  tensor t = tensor::declare(shape{2, 1, 4, 4}, dtype::f64);
  fill_param(*dev, {.name = "weight", .dims = shape{2, 1, 4, 4}, .filler = {"bilinear", {}}}, 1, 0, 0, t);
  const auto w = values_of(t);
  const double side[] = {0.25, 0.75, 0.75, 0.25};
  for (std::size_t i = 0; i < 32; ++i) EXPECT_DOUBLE_EQ(w[i], side[i / 4 % 4] * side[i % 4]) << i;
}

TEST(filler, depends_on_seed_layer_and_parameter) {
  const auto dev = make_cpu_device();
  const auto base = values_of(filled(*dev, {"xavier", {}}));
  EXPECT_EQ(base, values_of(filled(*dev, {"xavier", {}})));
  EXPECT_NE(base, values_of(filled(*dev, {"xavier", {}}, 2)));
  EXPECT_NE(base, values_of(filled(*dev, {"xavier", {}}, 1, 1)));
  EXPECT_NE(base, values_of(filled(*dev, {"xavier", {}}, 1, 0, 1)));
}

TEST(filler, gives_f32_the_rounded_numbers_of_f64) {
  const auto dev = make_cpu_device();
  const auto wide = values_of(filled(*dev, {"gaussian", {}}));
  const auto narrow = values_of<float>(filled(*dev, {"gaussian", {}}, 1, 0, 0, dtype::f32));
  for (std::size_t i = 0; i < wide.size(); ++i) ASSERT_EQ(static_cast<float>(wide[i]), narrow[i]);
}

TEST(filler, is_parsed_from_a_table) {
  const filler_spec s = filler_from({{{"kind", std::string("gaussian")}, {"std", 0.01}}}, "xavier");
  EXPECT_EQ(s.kind, "gaussian");
  EXPECT_EQ(s.values.real("std"), 0.01);
  EXPECT_EQ(filler_from({}, "xavier").kind, "xavier");
  EXPECT_THROW(filler_from({{{"kind", std::string("gausian")}}}, "xavier"), option_error);
  EXPECT_THROW(filler_from({{{"std", 1.0}}}, "xavier"), option_error);
}

TEST(dropout, mask_does_not_depend_on_how_the_batch_is_split) {
  const auto dev = make_cpu_device();
  const test::stock stock;
  const auto l = stock.make("dropout", {{{"ratio", 0.4}}});
  const tensor batch = test::gaussian(*dev, {8, 100}, 1);
  const auto run = [&](std::int64_t first, std::int64_t rows) {
    context c{.dev = *dev, .seed = 5, .layer = 2, .step = 9, .first_example = static_cast<std::uint64_t>(first)};
    return values_of(stock.forward(*l, c, {batch.slice(first * 100, shape{rows, 100})})[0]);
  };
  const auto whole = run(0, 8);
  std::vector<double> pieces;
  for (std::int64_t first : {0, 3, 4})
    for (double v : run(first, first == 0 ? 3 : first == 3 ? 1 : 4)) pieces.push_back(v);
  EXPECT_EQ(whole, pieces);
  const auto zeros = std::count(whole.begin(), whole.end(), 0.0);
  EXPECT_NEAR(static_cast<double>(zeros) / 800, 0.4, 0.08);
}

TEST(dropout, changes_with_step_and_layer_and_is_identity_in_the_test_phase) {
  const auto dev = make_cpu_device();
  const test::stock stock;
  const auto l = stock.make("dropout");
  const tensor x = test::gaussian(*dev, {4, 50}, 1);
  const auto run = [&](context c) { return values_of(stock.forward(*l, c, {x})[0]); };
  const auto base = run({.dev = *dev});
  EXPECT_NE(base, run({.dev = *dev, .layer = 1}));
  EXPECT_NE(base, run({.dev = *dev, .step = 1}));
  EXPECT_NE(base, run({.dev = *dev, .seed = 1}));
  EXPECT_EQ(values_of(x), run({.dev = *dev, .ph = phase::test}));
}

}  // namespace
}  // namespace troupe
