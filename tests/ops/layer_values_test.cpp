// Layers on values that can be computed by hand, and shapes of well-known nets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/finite.hpp"

#include "tests/ops/support.hpp"

namespace troupe {
namespace {

using test::tensor_of;
using test::values_of;
using ::testing::HasSubstr;
using i = std::int64_t;
using reals = std::vector<double>;

struct layer_values : testing::Test {
  std::unique_ptr<device> dev = make_cpu_device();
  test::stock stock;
  reals run(const char* type, options given, const tensors& in, const tensors& params = {}) {
    return values_of(stock.forward(*stock.make(type, std::move(given)), {.dev = *dev}, in, params)[0]);
  }
  shape infer(const char* type, options given, const shapes& in) { return stock.make(type, std::move(given))->infer(in)[0]; }
  tensor iota(shape s) {
    reals v(static_cast<std::size_t>(s.count()));
    for (std::size_t k = 0; k < v.size(); ++k) v[k] = static_cast<double>(k);
    return tensor_of(*dev, s, v);
  }
  std::string shape_mistake(const char* type, options given, const shapes& in) {
    try {
      stock.make(type, std::move(given))->infer(in);
    } catch (const shape_error& e) {
      return e.what();
    }
    return "none";
  }
};

TEST_F(layer_values, convolution_gives_the_values_computed_by_hand) {
  const tensors params{tensor_of(*dev, {1, 1, 2, 2}, {1, 0, 0, -1}), tensor_of(*dev, {1}, {10})};
  EXPECT_EQ(run("convolution", {{{"outputs", i{1}}, {"kernel", i{2}}}}, {iota({1, 1, 3, 3})}, params), (reals{6, 6, 6, 6}));
}

TEST_F(layer_values, pooling_rounds_like_caffe_or_like_torch) {
  const options ceil{{{"kernel", i{3}}, {"stride", i{2}}}},
      floor{{{"kernel", i{3}}, {"stride", i{2}}, {"rounding", std::string("floor")}}};
  EXPECT_EQ(infer("max_pool", ceil, {{1, 1, 32, 32}}), (shape{1, 1, 16, 16}));
  EXPECT_EQ(infer("max_pool", floor, {{1, 1, 32, 32}}), (shape{1, 1, 15, 15}));
  EXPECT_EQ(infer("max_pool", {{{"kernel", i{2}}, {"stride", i{2}}, {"pad", i{1}}}}, {{1, 1, 5, 5}}),
            (shape{1, 1, 3, 3}));  // the window beyond the padding is dropped
  EXPECT_EQ(run("max_pool", ceil, {iota({1, 1, 4, 4})}), (reals{10, 11, 14, 15}));
  EXPECT_EQ(run("avg_pool", {{{"kernel", i{2}}, {"stride", i{2}}}}, {iota({1, 1, 3, 3})}), (reals{2, 3.5, 6.5, 8}));
  EXPECT_EQ(run("avg_pool", {{{"kernel", i{3}}, {"stride", i{3}}, {"pad", i{1}}}}, {iota({1, 1, 2, 2})}), (reals{6.0 / 9}));
  EXPECT_EQ(run("avg_pool", {{{"kernel", i{3}}, {"stride", i{3}}, {"pad", i{1}}, {"count_padding", false}}}, {iota({1, 1, 2, 2})}),
            (reals{1.5}));
  EXPECT_EQ(run("avg_pool", {}, {iota({1, 2, 2, 2})}), (reals{1.5, 5.5}));
}

TEST_F(layer_values, linear_and_relu_give_the_values_computed_by_hand) {
  const tensors params{tensor_of(*dev, {2, 2}, {1, 2, 3, 4}), tensor_of(*dev, {2}, {100, 200})};
  EXPECT_EQ(run("linear", {{{"outputs", i{2}}}}, {tensor_of(*dev, {1, 2, 1}, {10, 20})}, params), (reals{150, 310}));
  EXPECT_EQ(run("relu", {{{"slope", 0.5}}}, {tensor_of(*dev, {3}, {-2, 0, 3})}), (reals{-1, 0, 3}));
}

TEST_F(layer_values, lrn_gives_the_values_computed_by_hand) {
  const auto y = run("lrn", {{{"size", i{3}}, {"alpha", 3.0}}}, {tensor_of(*dev, {1, 3, 1, 1}, {1, 2, 3})});
  for (int c = 0; c < 3; ++c) {
    const double scale[] = {1 + 5, 1 + 14, 1 + 13};
    EXPECT_NEAR(y[static_cast<std::size_t>(c)], (c + 1) * std::pow(scale[c], -0.75), 1e-14);
  }
  const auto z = run("lrn", {{{"size", i{3}}, {"alpha", 9.0}, {"beta", 0.5}, {"region", std::string("within_channel")}}},
                     {tensor_of(*dev, {1, 1, 1, 3}, {1, 2, 3})});
  EXPECT_NEAR(z[0], 1 / std::sqrt(1 + 5.0), 1e-14);
  EXPECT_NEAR(z[1], 2 / std::sqrt(1 + 14.0), 1e-14);
}

TEST_F(layer_values, concat_undoes_slice) {
  const tensor x = iota({2, 5, 2});
  const auto parts = stock.forward(*stock.make("slice", {{{"points", std::vector<i>{1, 3}}}}), {.dev = *dev}, {x});
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(values_of(parts[0]), (reals{0, 1, 10, 11}));
  EXPECT_EQ(run("concat", {}, parts), values_of(x));
}

TEST_F(layer_values, eltwise_gives_the_values_computed_by_hand) {
  const tensors in{tensor_of(*dev, {3}, {1, 5, 3}), tensor_of(*dev, {3}, {2, 4, 3})};
  EXPECT_EQ(run("eltwise", {{{"coeffs", reals{1, -2}}}}, in), (reals{-3, -3, -3}));
  EXPECT_EQ(run("eltwise", {{{"operation", std::string("prod")}}}, in), (reals{2, 20, 9}));
  EXPECT_EQ(run("eltwise", {{{"operation", std::string("max")}}}, in), (reals{2, 5, 3}));
}

TEST_F(layer_values, permute_and_reshape_give_the_values_computed_by_hand) {
  const options turned{{{"order", std::vector<i>{2, 1}}}};
  EXPECT_EQ(run("permute", turned, {iota({1, 2, 3})}), (reals{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(infer("permute", {{{"order", std::vector<i>{3, 1, 2}}}}, {{7, 2, 3, 4}}), (shape{7, 4, 2, 3}));
  EXPECT_EQ(infer("reshape", {{{"shape", std::vector<i>{3, -1, 2}}}}, {{7, 4, 6}}), (shape{7, 3, 4, 2}));
  EXPECT_EQ(infer("reshape", {{{"shape", std::vector<i>{0, -1, 2}}}}, {{7, 4, 6}}), (shape{7, 4, 3, 2}));
  EXPECT_EQ(run("reshape", {{{"shape", std::vector<i>{-1}}}}, {iota({2, 3, 2})}), values_of(iota({2, 6})));
}

TEST_F(layer_values, matmul_gives_the_values_computed_by_hand) {
  const tensors in{tensor_of(*dev, {2, 1, 2}, {1, 2, 3, 4}), tensor_of(*dev, {2, 2, 1}, {10, 20, 30, 40})};
  EXPECT_EQ(run("matmul", {{{"scale", 0.5}}}, in), (reals{25, 125}));
}

TEST_F(layer_values, later_columns_of_a_causal_softmax_are_zero_and_do_not_count) {
  const options causal{{{"axis", i{2}}, {"causal", true}}};
  EXPECT_EQ(run("softmax", causal, {tensor_of(*dev, {1, 3, 3}, {7, 1e30, -3, 2, 2, 1e30, 5, 5, 5})}),
            (reals{1, 0, 0, 0.5, 0.5, 0, 1.0 / 3, 1.0 / 3, 1.0 / 3}));
}

TEST_F(layer_values, group_norm_of_a_group_per_channel_is_instance_norm) {
  const tensor x = iota({2, 4, 3});
  const tensors params{tensor_of(*dev, {4}, {1, 2, 3, 4}), tensor_of(*dev, {4}, {5, 6, 7, 8})};
  const auto y = run("instance_norm", {}, {x}, params);
  EXPECT_EQ(run("group_norm", {{{"groups", i{4}}}}, {x}, params), y);
  const double step = std::sqrt(1.5 / (1 + 1.5e-5));  // 1 / sqrt(2 / 3 + epsilon)
  for (std::size_t c = 0; c < 4; ++c) {
    EXPECT_NEAR(y[3 * c], static_cast<double>(c + 5) - static_cast<double>(c + 1) * step, 1e-12);
    EXPECT_NEAR(y[3 * c + 1], static_cast<double>(c + 5), 1e-12);
  }
}

TEST_F(layer_values, layers_that_move_and_multiply_name_what_does_not_fit) {
  using list = std::vector<i>;
  EXPECT_EQ(shape_mistake("reshape", {{{"shape", list{5, -1}}}}, {{2, 3, 4}}),
            "expects an input with as many values per example as shape 2x5x-1, got 2x3x4");
  EXPECT_EQ(shape_mistake("reshape", {{{"shape", list{3, 3}}}}, {{2, 3, 4}}),
            "expects an input with as many values per example as shape 2x3x3, got 2x3x4");
  EXPECT_EQ(shape_mistake("reshape", {{{"shape", list{-1, 1, 0}}}}, {{2, 3, 4}}),
            "expects an input with an axis 3, whose extent 'shape' keeps (0), got 2x3x4");
  const i most = 1000000000;
  EXPECT_THAT(shape_mistake("reshape", {{{"shape", list{most, most, most, -1}}}}, {{2, 3, 4}}), HasSubstr("got 2x3x4"));
  EXPECT_EQ(shape_mistake("permute", {{{"order", list{2, 1}}}}, {{2, 3, 4, 5}}),
            "expects one input with 2 axes behind the batch, as many as 'order' has, got 2x3x4x5");
  EXPECT_EQ(shape_mistake("matmul", {{{"transpose_b", true}}}, {{2, 3, 4}, {2, 4, 5}}),
            "expects inputs [N, ..., M, K] and [N, ..., P, K] with equal axes in front and equal K, got 2x3x4, 2x4x5");
  EXPECT_THAT(shape_mistake("matmul", {}, {{2, 3, 4, 5}, {2, 2, 5, 4}}), HasSubstr("got 2x3x4x5, 2x2x5x4"));
  EXPECT_EQ(shape_mistake("softmax", {{{"axis", i{2}}, {"causal", true}}}, {{2, 3, 4}}),
            "expects square matrices [N, ..., T, T] whose columns are axis 2, since 'causal' is set, got 2x3x4");
  EXPECT_EQ(shape_mistake("group_norm", {{{"groups", i{3}}}}, {{2, 4, 5}}),
            "expects one input [N, C, ...] whose channels are a multiple of 3 groups, got 2x4x5");
  for (const auto& wrong : {list{}, list{-1, -1}, list{1, 1, 1, 1, 1, 1}})
    EXPECT_THROW(stock.make("reshape", {{{"shape", wrong}}}), option_error);
  for (const auto& wrong : {list{}, list{2}, list{1, 1}, list{1, 3}, list{1, 2, 3, 4, 5, 6}})
    EXPECT_THROW(stock.make("permute", {{{"order", wrong}}}), option_error);
  EXPECT_THROW(stock.make("softmax", {{{"causal", true}}}), option_error);
}

TEST_F(layer_values, shape_errors_name_expected_and_given_shapes) {
  EXPECT_EQ(shape_mistake("convolution", {{{"outputs", i{1}}, {"kernel", i{5}}}}, {{1, 1, 4, 4}}),
            "expects an image no smaller than the kernel's extent 5x5 (pad 0), got 1x1x4x4");
  EXPECT_EQ(shape_mistake("concat", {}, {{2, 3, 4}, {2, 3, 5}}), "expects inputs that differ along axis 1 only, got 2x3x4, 2x3x5");
  EXPECT_EQ(shape_mistake("softmax_loss", {}, {{4, 10}, {5}}),
            "expects logits [N, C] and labels [N], or [N, T, C] and [N, T], got 4x10, 5");
  EXPECT_EQ(shape_mistake("slice", {{{"points", std::vector<i>{2, 2}}}}, {{1, 4}}),
            "expects ascending points inside the axis, got 1x4");
  EXPECT_THROW(stock.make("convolution", {{{"outputs", i{1}}}}), option_error);
  EXPECT_THROW(stock.make("lrn", {{{"size", i{4}}}}), option_error);
}

// Sizes are checked before anything of that size is allocated.
TEST_F(layer_values, oversized_outputs_are_refused_before_allocation) {
  const shape image{2, 3, 4, 5};
  const i most = std::numeric_limits<i>::max();
  EXPECT_THAT(shape_mistake("upsample", {{{"factor", i{1000000000}}}}, {image}), HasSubstr("not 4000000000x5000000000"));
  EXPECT_THAT(shape_mistake("upsample", {{{"height", i{1000000000}}, {"width", i{1}}}}, {image}), HasSubstr("not 1000000000x1"));
  EXPECT_THAT(shape_mistake("pad", {{{"pad", i{1000000000}}}}, {image}), HasSubstr("at most 16777216 pixels in height and width"));
  EXPECT_THAT(shape_mistake("crop", {{{"size", std::vector<i>{2, 2}}, {"offsets", std::vector<i>{most}}}}, {image}),
              HasSubstr("axis 2 starts at 9223372036854775807 and has 2"));
  EXPECT_THAT(shape_mistake("crop", {{{"size", std::vector<i>{most, 2}}, {"offsets", std::vector<i>{1}}}}, {image}),
              HasSubstr("a box inside the input"));
}

TEST_F(layer_values, more_outputs_than_can_be_named_are_refused) {
  EXPECT_THROW(stock.make("split", {{{"copies", i{100000000}}}}), option_error);
  EXPECT_THROW(stock.make("slice", {{{"parts", i{100000000}}}}), option_error);
  EXPECT_EQ(stock.make("split", {{{"copies", max_outputs}}})->infer({{2}}).size(), static_cast<std::size_t>(max_outputs));
}

TEST(finite, all_finite_finds_every_nonfinite_element) {
  const auto dev = make_cpu_device();
  for (const auto type : {dtype::f32, dtype::f64, dtype::bf16}) {
    auto t = tensor::allocate(*dev, {10001}, type);
    dev->fill(1e38, t);
    EXPECT_TRUE(all_finite(t)) << name_of(type);
    for (const double bad : {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()})
      for (const i at : {i{0}, i{4096}, i{10000}}) {
        dev->fill(-1e38, t);
        auto one = t.slice(at, {1});
        dev->fill(bad, one);
        EXPECT_FALSE(all_finite(t)) << name_of(type) << " at " << at;
      }
  }
  EXPECT_TRUE(all_finite(tensor::declare({3}, dtype::f32)));
}

}  // namespace
}  // namespace troupe
