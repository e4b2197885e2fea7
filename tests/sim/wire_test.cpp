// Activations and gradients in fewer bytes (`wire`): rounding errors, the edges that are cast, and
// the bytes saved.
#include <cmath>
#include <limits>
#include <random>

#include "ops/tensor_values.hpp"
#include "runtime/stage/wire_cast.hpp"
#include "tests/sim/random_net.hpp"

namespace troupe::testing {
namespace {

class wire : public ::testing::Test {
 protected:
  const std::shared_ptr<device> dev = make_cpu_device();

  template <class T>
  tensor made(const shape& s, const std::vector<T>& values) {
    auto t = tensor::allocate(*dev, s, dtype_of<T>);
    dev->upload(values.data(), t);
    return t;
  }
  bool equal(const tensor& a, const tensor& b) { return same_bits(at_home(*dev, a), at_home(*dev, b)); }
  template <class T>
  std::vector<T> there_and_back(const shape& s, const std::vector<T>& values, wire_format f) {
    const auto sent = to_wire(*dev, made(s, values), f);
    EXPECT_EQ(static_cast<std::int64_t>(sent.bytes()), wire_bytes(f, s, dtype_of<T>));
    const tensor got = at_home(*dev, from_wire(*dev, sent, f, s, dtype_of<T>));
    EXPECT_TRUE(got.dims() == s);
    const T* first = got.template data<T>();
    return {first, first + got.count()};
  }

  std::shared_ptr<prepared_job> job(const std::string& format, const std::vector<std::string>& places,
                                    const std::string& precision) {
    shape_of_job s;
    s.workers = 2;
    auto j = small_spec(s);
    j.precision = precision;
    for (std::size_t i = 0; i < j.layers.size(); ++i) {
      j.layers[i].wire = format;
      if (i >= 3)
        j.layers[i].partition = "none", j.layers[i].key_at["partition"] = {}, j.layers[i].place = {places[i % places.size()]};
    }
    auto made = prepare_job(j, shared_tables(), nodes_named(2));
    return *made;
  }
  run_result run(const std::shared_ptr<prepared_job>& j, std::uint64_t seed = 1) {
    sim::world_config c;
    c.seed = seed;
    c.dev = dev.get();
    return run_in_world(j, c);
  }
};

TEST_F(wire, bf16_error_is_at_most_one_part_in_256) {
  std::mt19937 rng(3);
  std::vector<float> x;
  for (int i = 0; i < 4096; ++i)
    x.push_back(std::ldexp(std::uniform_real_distribution<float>(-2, 2)(rng), std::uniform_int_distribution<int>(-60, 60)(rng)));
  const auto y = there_and_back({64, 64}, x, wire_format::bf16);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_LE(std::abs(y[i] - x[i]), std::abs(x[i]) / 256) << x[i];
  const std::vector<double> exact{0.0, -0.0, 1.0, -2.5, 0.0078125, std::numeric_limits<double>::infinity()};
  EXPECT_EQ(there_and_back({2, 3}, exact, wire_format::bf16), exact);
  EXPECT_TRUE(std::isnan(there_and_back<float>({1, 1}, {std::numeric_limits<float>::quiet_NaN()}, wire_format::bf16)[0]));
  // Ties go to the even neighbour: 1 + 2^-8 lies between 1 and 1 + 2^-7.
  EXPECT_EQ(there_and_back<float>({1, 2}, {1.00390625F, 1.01171875F}, wire_format::bf16), (std::vector<float>{1.0F, 1.015625F}));
}

TEST_F(wire, int8_error_is_at_most_half_a_step_of_the_examples_scale) {
  std::mt19937 rng(4);
  std::vector<double> x;
  for (int n = 0; n < 32; ++n)
    for (int i = 0; i < 30; ++i) x.push_back(std::ldexp(std::normal_distribution<double>()(rng), n - 16));
  const auto y = there_and_back({32, 2, 3, 5}, x, wire_format::int8);
  for (std::size_t n = 0; n < 32; ++n) {
    double most = 0;
    for (std::size_t i = 0; i < 30; ++i) most = std::max(most, std::abs(x[30 * n + i]));
    for (std::size_t i = 0; i < 30; ++i) EXPECT_LE(std::abs(y[30 * n + i] - x[30 * n + i]), most / 254 * 1.0001);
  }
  EXPECT_EQ(there_and_back<float>({2, 2}, {0, 0, 127, -127}, wire_format::int8), (std::vector<float>{0, 0, 127, -127}));
  const auto bad = there_and_back<float>({2, 2}, {1, std::numeric_limits<float>::infinity(), 2, 1}, wire_format::int8);
  EXPECT_TRUE(std::isnan(bad[0]) && std::isnan(bad[1])) << "nonfinite values make their example NaN";
  EXPECT_EQ(bad[2], 2.0F) << "and do not affect other examples";
}

// bf16 activations: "bf16" sends them unchanged; int8 encodes them like the same values in f32.
TEST_F(wire, bf16_activations_are_sent_unchanged_or_as_int8) {
  std::mt19937 rng(5);
  std::vector<float> x;
  for (int i = 0; i < 240; ++i) x.push_back(std::normal_distribution<float>()(rng));
  const shape s{8, 30};
  tensor narrow = tensor::allocate(*dev, s, dtype::bf16), wide = tensor::allocate(*dev, s, dtype::f32);
  dev->copy(made(s, x), narrow);
  dev->copy(narrow, wide);
  for (const auto f : {wire_format::as_is, wire_format::bf16}) {
    const auto sent = to_wire(*dev, narrow, f);
    EXPECT_EQ(static_cast<std::int64_t>(sent.bytes()), wire_bytes(f, s, dtype::bf16));
    EXPECT_TRUE(equal(from_wire(*dev, sent, f, s, dtype::bf16), narrow));
  }
  const auto sent = to_wire(*dev, narrow, wire_format::int8), as_f32 = to_wire(*dev, wide, wire_format::int8);
  EXPECT_EQ(static_cast<std::int64_t>(sent.bytes()), wire_bytes(wire_format::int8, s, dtype::bf16));
  EXPECT_TRUE(equal(sent, as_f32));
  tensor expected = tensor::allocate(*dev, s, dtype::bf16);
  dev->copy(from_wire(*dev, as_f32, wire_format::int8, s, dtype::f32), expected);
  EXPECT_TRUE(equal(from_wire(*dev, sent, wire_format::int8, s, dtype::bf16), expected));
}

// The plan casts only edges between nodes.
TEST_F(wire, casts_only_tensors_that_cross_nodes) {
  const std::vector<std::string> together{"n1"}, crossed{"n1", "n2"};
  for (const char* precision : {"fp32", "f64"}) {
    SCOPED_TRACE(precision);
    const auto plain = run(job("fp32", crossed, precision));
    ASSERT_TRUE(plain.done && !plain.weights.empty());
    for (const char* format : {"bf16", "int8"}) {
      const auto j = job(format, crossed, precision);
      bool some = false;
      for (const auto& e : j->plan.edges) {
        const bool crosses = j->plan[e.from].node != j->plan[e.to].node && e.what.layer >= 0;
        EXPECT_EQ(e.wire != wire_format::as_is, crosses);
        some = some || crosses;
      }
      EXPECT_TRUE(some);
      const auto got = run(j), again = run(j, 77);
      EXPECT_EQ(got.bytes(), again.bytes()) << "the weights depend on the order of arrival";
      EXPECT_NE(got.bytes(), plain.bytes());
      double worst = 0;
      for (std::size_t i = 0; i < got.weights.size(); ++i) {
        double most = 1e-30, off = 0;
        for (std::int64_t k = 0; k < got.weights[i].second.count(); ++k) {
          const auto at = [&](const tensor& t) {
            return t.type() == dtype::f64 ? t.data<double>()[k] : static_cast<double>(t.data<float>()[k]);
          };
          most = std::max(most, std::abs(at(plain.weights[i].second)));
          off = std::max(off, std::abs(at(plain.weights[i].second) - at(got.weights[i].second)));
        }
        worst = std::max(worst, off / most);
      }
      EXPECT_LT(worst, 0.05) << format << ", after five steps";
      EXPECT_GT(worst, 0.0);
    }
  }
  auto one = job("int8", together, "fp32");
  for (const auto& e : one->plan.edges) {
    if (one->plan[e.from].node != one->plan[e.to].node) continue;
    EXPECT_EQ(e.wire, wire_format::as_is);
  }
}

TEST_F(wire, does_not_change_a_job_on_one_node) {
  shape_of_job s;
  auto j = small_spec(s);
  const auto plain = prepare_job(j, shared_tables(), nodes_named(1));
  for (auto& l : j.layers) l.wire = "int8";
  const auto cast = prepare_job(j, shared_tables(), nodes_named(1));
  EXPECT_EQ(run(*plain).bytes(), run(*cast).bytes());
}

// Any net, any partition: pieces, addends and gradients in fewer bytes are combined correctly, and
// no order of arrival changes a bit.
TEST_F(wire, random_partitions_give_the_same_bits_in_any_order_of_arrival) {
  std::uint64_t ran = 0, casts = 0;
  for (std::uint64_t seed = 1; ran < seeds(60); ++seed) {
    random_net net(seed);
    auto spec = net.job();
    bool feature = false;
    net.place(spec, 3, feature);
    for (auto& l : spec.layers) l.wire = net.chance(0.5) ? "bf16" : net.chance(0.5) ? "int8" : "fp32";
    auto made = prepare_job(spec, shared_tables(), nodes_named(3));
    if (!made) continue;
    ++ran;
    const auto j = *made;
    for (const auto& e : j->plan.edges) casts += e.wire != wire_format::as_is ? 1 : 0;
    const auto a = run(j, seed), b = run(j, seed + 1000);
    ASSERT_TRUE(a.done && !a.weights.empty()) << "seed " << seed;
    ASSERT_EQ(a.bytes(), b.bytes()) << "seed " << seed;
  }
  EXPECT_GT(casts, 0u);
}

TEST_F(wire, plan_counts_fewer_bytes) {
  const auto bytes = [&](const char* format) {
    const auto j = job(format, {"n1", "n2"}, "fp32");
    double sum = 0;
    for (const auto& e : j->plan.edges)
      if (e.what.layer >= 0 && j->plan[e.from].node != j->plan[e.to].node) {
        const auto& l = j->graph.layers[static_cast<std::size_t>(e.what.layer)];
        const auto elements = cut(l.out[e.what.output], e.region).count(), examples = l.out[e.what.output][0];
        const auto each = format == std::string("bf16")   ? 2 * elements
                          : format == std::string("int8") ? elements + 4 * examples
                                                          : 4 * elements;
        sum += static_cast<double>(each * e.packets.count * (e.in_train ? 1 + e.grad_back : 0));
      }
    const auto costs = cost_of(j->plan, j->graph, j->spec);
    double all = 0;
    for (const auto& [way, b] : costs.links) all += b;
    return std::pair(sum, all);
  };
  const auto plain = bytes("fp32"), half = bytes("bf16"), quarter = bytes("int8");
  EXPECT_EQ(half.first, plain.first / 2);
  EXPECT_EQ(plain.second - half.second, plain.first - half.first);
  EXPECT_EQ(plain.second - quarter.second, plain.first - quarter.first);
}

}  // namespace
}  // namespace troupe::testing
