// Primitives on bf16 tensors equal those of f32 on the same numbers, rounded once. Compared bit by
// bit, since there is no other difference.
#include <cmath>

#include "ops/bf16.hpp"
#include "ops/tensor_values.hpp"
#include "tests/ops/bf16_support.hpp"

namespace troupe {
namespace {

using test::converted;
using test::gaussian;
using test::half_gaussian;
using test::poisoned;

struct bf16_primitive : testing::Test {
  std::unique_ptr<device> d = make_cpu_device();
  tensor wide(const tensor& x) { return converted(*d, x, dtype::f32); }
  void expect_rounded(const tensor& narrow, const tensor& of_f32) {
    EXPECT_TRUE(same_bits(narrow, converted(*d, of_f32, dtype::bf16)));
  }
};

TEST_F(bf16_primitive, maps_have_the_rounded_bits_of_f32) {
  tensor x = half_gaussian(*d, shape{20001}, 1), dy = half_gaussian(*d, shape{20001}, 2);
  x.mutable_data<bf16>()[0] = to_bf16(-0.0F), x.mutable_data<bf16>()[1] = to_bf16(std::nanf("")),
  x.mutable_data<bf16>()[2] = to_bf16(-INFINITY);
  x.mutable_data<bf16>()[3] = to_bf16(INFINITY), x.mutable_data<bf16>()[4] = to_bf16(0.0F), x.mutable_data<bf16>()[5] = bf16{1};
  for (const auto f : {unary::relu, unary::sigmoid, unary::tanh, unary::exp, unary::square, unary::absolute, unary::elu,
                       unary::gelu, unary::relu6, unary::silu, unary::hard_sigmoid, unary::hard_swish})
    for (const double parameter : {0.0, 0.5}) {
      tensor y = poisoned(*d, x.dims(), dtype::bf16), y32 = poisoned(*d, x.dims(), dtype::f32), dx = y, dx32 = y32;
      d->map(f, parameter, x, y);
      d->map(f, parameter, wide(x), y32);
      expect_rounded(y, y32);
      dx = poisoned(*d, x.dims(), dtype::bf16), dx32 = poisoned(*d, x.dims(), dtype::f32);
      d->map_backward(f, parameter, x, y, dy, dx);
      d->map_backward(f, parameter, wide(x), wide(y), wide(dy), dx32);
      expect_rounded(dx, dx32);
    }
}

TEST_F(bf16_primitive, arithmetic_has_the_rounded_bits_of_f32) {
  const tensor x = half_gaussian(*d, shape{3, 5000}, 1), y = half_gaussian(*d, shape{3, 5000}, 2),
               b = gaussian(*d, shape{5000}, 3, dtype::f32);
  for (const auto op : {binary::add, binary::subtract, binary::multiply, binary::maximum, binary::rectified_sum}) {
    tensor z = poisoned(*d, x.dims(), dtype::bf16), z32 = poisoned(*d, x.dims(), dtype::f32);
    d->apply(op, x, y, z);
    d->apply(op, wide(x), wide(y), z32);
    expect_rounded(z, z32);
  }
  tensor z = converted(*d, x, dtype::bf16), z32 = wide(x);
  d->axpy(0.3, y, z), d->axpy(0.3, wide(y), z32);
  expect_rounded(z, z32);
  z32 = wide(z);
  d->scale(-1.7, z), d->scale(-1.7, z32);
  expect_rounded(z, z32);
  z32 = wide(z);
  d->add_bias(3, 5000, 1, b, z), d->add_bias(3, 5000, 1, b, z32);
  expect_rounded(z, z32);
  z32 = wide(z);
  d->add_bias(3, 50, 100, b.slice(0, shape{50}), z), d->add_bias(3, 50, 100, b.slice(0, shape{50}), z32);
  expect_rounded(z, z32);
  tensor blended = poisoned(*d, x.dims(), dtype::bf16), blended32 = poisoned(*d, x.dims(), dtype::f32);
  d->blend(3, 5000, 1, x, b, y, {}, b, blended), d->blend(3, 5000, 1, wide(x), b, wide(y), {}, b, blended32);
  expect_rounded(blended, blended32);
  for (const auto& [outer, mid, inner] : {std::array<std::int64_t, 3>{3, 5000, 1}, {3, 10, 500}, {1, 5, 3000}, {5000, 1, 3}}) {
    tensor sum = poisoned(*d, shape{mid}, dtype::f32), sum32 = poisoned(*d, shape{mid}, dtype::f32);
    d->reduce_sum(outer, mid, inner, x, sum), d->reduce_sum(outer, mid, inner, wide(x), sum32);
    EXPECT_TRUE(same_bits(sum, sum32));
    d->reduce_product(outer, mid, inner, x, y, sum), d->reduce_product(outer, mid, inner, wide(x), wide(y), sum32);
    EXPECT_TRUE(same_bits(sum, sum32));
  }
  EXPECT_EQ(test::squares_of(*d, x), test::squares_of(*d, wide(x)));
}

TEST_F(bf16_primitive, pooling_and_normalisation_agree_with_f32) {
  const lrn_geometry across{.batch = 3, .channels = 40, .height = 9, .width = 11};
  lrn_geometry within = across;
  within.across_channels = false, within.size = 3;
  const shape xs{3, 40, 9, 11};
  const tensor x = half_gaussian(*d, xs, 1), dy = half_gaussian(*d, xs, 2);
  for (const auto& g : {within}) {
    tensor y = poisoned(*d, xs, dtype::bf16), y32 = poisoned(*d, xs, dtype::f32), scale = poisoned(*d, xs, dtype::f32),
           scale32 = poisoned(*d, xs, dtype::f32);
    d->lrn(g, x, y, scale), d->lrn(g, wide(x), y32, scale32);
    expect_rounded(y, y32);
    EXPECT_TRUE(same_bits(scale, scale32));
    tensor dx = poisoned(*d, xs, dtype::bf16), dx32 = poisoned(*d, xs, dtype::f32);
    d->lrn_backward(g, x, scale, dy, dx), d->lrn_backward(g, wide(x), scale, wide(dy), dx32);
    expect_rounded(dx, dx32);
  }
  for (auto [height, width] : {std::array<std::int64_t, 2>{9, 11}, {2, 3}, {1, 1}})  // more and less than a strip of pixels
    for (const double beta : {0.75, 0.6}) {
      const lrn_geometry g{.batch = 3, .channels = 40, .height = height, .width = width, .beta = beta};
      const shape s{3, 40, height, width};
      const tensor in = half_gaussian(*d, s, 5), slope = half_gaussian(*d, s, 6);
      tensor y = poisoned(*d, s, dtype::bf16), y32 = poisoned(*d, s, dtype::f32), scale = poisoned(*d, s, dtype::bf16);
      tensor scale32 = poisoned(*d, s, dtype::f32), dx = poisoned(*d, s, dtype::bf16), dx32 = poisoned(*d, s, dtype::f32);
      d->lrn(g, in, y, scale), d->lrn(g, wide(in), y32, scale32);
      d->lrn_backward(g, in, scale, slope, dx), d->lrn_backward(g, wide(in), scale32, wide(slope), dx32);
      for (std::int64_t i = 0; i < s.count(); ++i) {
        ASSERT_NEAR(value(y, i), value(y32, i), 0x1.04p-8 * std::fabs(value(y32, i)));  // rounded, with a root whose error is 5e-6
        ASSERT_NEAR(value(scale, i), value(scale32, i), 0x1.04p-8 * value(scale32, i));
        ASSERT_NEAR(value(dx, i), value(dx32, i), 0.02 * (1 + std::fabs(value(dx32, i))));
      }
    }
  const pool_geometry p{
      .planes = 120, .height = 9, .width = 11, .out_h = 4, .out_w = 5, .kernel_h = 3, .kernel_w = 3, .stride_h = 2, .stride_w = 2};
  const shape ys{3, 40, 4, 5};
  const tensor dp = half_gaussian(*d, ys, 3);
  tensor y = poisoned(*d, ys, dtype::bf16), y32 = poisoned(*d, ys, dtype::f32), at = tensor::allocate(*d, ys, dtype::i32),
         at32 = tensor::allocate(*d, ys, dtype::i32);
  tensor dx = poisoned(*d, xs, dtype::bf16), dx32 = poisoned(*d, xs, dtype::f32);
  d->max_pool(p, x, y, at), d->max_pool(p, wide(x), y32, at32);
  expect_rounded(y, y32);
  EXPECT_TRUE(same_bits(at, at32));
  d->max_pool_backward(p, dp, at, dx), d->max_pool_backward(p, wide(dp), at, dx32);
  expect_rounded(dx, dx32);
  d->avg_pool(p, x, y), d->avg_pool(p, wide(x), y32);
  expect_rounded(y, y32);
  d->avg_pool_backward(p, dp, dx), d->avg_pool_backward(p, wide(dp), dx32);
  expect_rounded(dx, dx32);
}

TEST_F(bf16_primitive, draws_equal_those_of_f32) {
  for (const auto& s : {shape{40, 700}, shape{3, 20000}}) {
    const tensor x = half_gaussian(*d, s, 1);
    tensor y = poisoned(*d, s, dtype::bf16), y32 = poisoned(*d, s, dtype::f32);
    d->dropout({.key = 5}, 17, 0.3, x, y), d->dropout({.key = 5}, 17, 0.3, wide(x), y32);
    expect_rounded(y, y32);
    d->sample(draw::gaussian, {.key = 6}, 17, x, y), d->sample(draw::gaussian, {.key = 6}, 17, wide(x), y32);
    expect_rounded(y, y32);
  }
}

// The tensor between a convolution and its tail is rounded, as with separate layers.
TEST_F(bf16_primitive, convolution_with_tail_has_the_bits_of_separate_layers) {
  const conv_geometry g{.batch = 37, .channels = 3, .height = 15, .width = 15, .outputs = 8, .kernel_h = 3, .kernel_w = 3};
  const conv_tail t{.pools = true,
                    .maps = true,
                    .window = {.planes = 37 * 8,
                               .height = 13,
                               .width = 13,
                               .out_h = 6,
                               .out_w = 6,
                               .kernel_h = 2,
                               .kernel_w = 2,
                               .stride_h = 2,
                               .stride_w = 2}};
  const tensor x = half_gaussian(*d, shape{37, 3, 15, 15}, 1), w = gaussian(*d, shape{8, 3, 3, 3}, 2, dtype::f32),
               b = gaussian(*d, shape{8}, 3, dtype::f32);
  const shape ys{37, 8, 6, 6}, zs{37, 8, 13, 13};
  tensor y = poisoned(*d, ys, dtype::bf16), index = tensor::allocate(*d, ys, dtype::i32), apart = y,
         winners = tensor::allocate(*d, ys, dtype::i32);
  d->conv_tail_forward(g, t, x, w, b, y, index);
  apart = poisoned(*d, ys, dtype::bf16);
  tensor z = poisoned(*d, zs, dtype::bf16);
  d->conv_forward(g, x, w, b, z);
  d->max_pool(t.window, z, apart, winners);
  d->map(unary::relu, 0.0, apart, apart);
  EXPECT_TRUE(same_bits(y, apart));
  EXPECT_TRUE(same_bits(index, winners));
  const tensor dy = half_gaussian(*d, ys, 4);
  tensor dx = poisoned(*d, x.dims(), dtype::bf16), dw = poisoned(*d, w.dims(), dtype::f32), db = poisoned(*d, b.dims(), dtype::f32);
  d->conv_tail_backward(g, t, x, w, y, index, dy, dx, dw, db);
  EXPECT_FALSE(any_nan(dx) || any_nan(dw) || any_nan(db));
  tensor da = poisoned(*d, ys, dtype::bf16), dz = poisoned(*d, zs, dtype::bf16), dx2 = poisoned(*d, x.dims(), dtype::bf16);
  d->map_backward(unary::relu, 0.0, {}, y, dy, da);
  d->max_pool_backward(t.window, da, index, dz);
  d->conv_backward_data(g, dz, w, dx2);
  EXPECT_TRUE(same_bits(dx, dx2));
}

// In the test phase an rbm draws no numbers, so its values can be compared.
TEST_F(bf16_primitive, rbm_without_draws_agrees_with_f32) {
  const test::stock stock;
  const auto l = stock.make("rbm", options{{{"units", std::int64_t{70}}}});
  const tensor v = half_gaussian(*d, shape{4, 90}, 1), w = gaussian(*d, shape{70, 90}, 2, dtype::f32);
  const tensor b = gaussian(*d, shape{70}, 3, dtype::f32), c = gaussian(*d, shape{90}, 4, dtype::f32);
  tensors out[2];
  for (const bool narrow : {false, true}) {
    const tensor in = narrow ? v : wide(v);
    for (const auto& s : l->infer({in.dims()}))
      out[narrow].push_back(tensor::declare(s, output_type(*l, out[narrow].size(), in.type())));
    context ctx{.dev = *d, .ph = phase::test};
    saved s;
    l->forward(ctx, *l->prepare(*d, {in.dims()}, phase::test, in.type()), {in}, {wide(converted(*d, w, dtype::bf16)), b, c},
               out[narrow], s);
  }
  EXPECT_EQ(out[1][0].type(), dtype::f32);
  EXPECT_NEAR(value(out[1][0], 0), value(out[0][0], 0), 0.2);  // a difference of two energies of about 100
  for (const std::size_t o : {1U, 2U})
    for (std::int64_t i = 0; i < out[0][o].count(); ++i) ASSERT_NEAR(value(out[1][o], i), value(out[0][o], i), 0.05) << o;
}

}  // namespace
}  // namespace troupe
