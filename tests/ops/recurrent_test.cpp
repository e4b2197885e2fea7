// Products with a packed right operand, and properties of recurrent layers that check_layer does
// not test: carried state, and results of an example that do not depend on its packet.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ops/layer_support.hpp"
#include "tests/ops/support.hpp"

namespace troupe {
namespace {

using namespace test;

TEST(packed_products, agree_with_products_for_all_shapes_and_strides) {
  std::mt19937 rng(5);
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(rng);
  };
  for (auto& d : all_devices())
    for (int i = 0; i < 300; ++i) {
      const auto t = i % 2 == 0 ? dtype::f32 : dtype::f64;
      gemm_spec s{.transpose_a = draw(0, 1) == 1,
                  .transpose_b = draw(0, 1) == 1,
                  .m = draw(1, 140),
                  .n = draw(1, 90),
                  .k = draw(1, i % 10 ? 90 : 600)};
      s.beta = static_cast<double>(draw(0, 1));
      s.lda = (s.transpose_a ? s.m : s.k) + draw(0, 3), s.ldb = (s.transpose_b ? s.k : s.n) + draw(0, 3), s.ldc = s.n + draw(0, 3);
      const tensor a = gaussian(*d, {(s.transpose_a ? s.k : s.m), s.lda}, 1, t),
                   b = gaussian(*d, {(s.transpose_b ? s.n : s.k), s.ldb}, 2, t);
      tensor c = gaussian(*d, {s.m, s.ldc}, 3, t);
      tensor reference = empty(*d, {s.m, s.ldc}, t);
      d->copy(c, reference);
      d->gemm(s, a, b, reference);
      d->gemm_packed(s, a, d->pack(s, b), c);
      tensor wide_c = empty(*d, {s.m, s.ldc}), wide_r = empty(*d, {s.m, s.ldc});
      d->copy(c, wide_c), d->copy(reference, wide_r);
      const double bound = (t == dtype::f32 ? 2e-5 : 1e-12) * std::sqrt(static_cast<double>(s.k) + 1);
      for (std::int64_t e = 0; e < c.count(); ++e)
        ASSERT_NEAR(wide_c.data<double>()[e], wide_r.data<double>()[e], bound) << s.m << "x" << s.n << "x" << s.k << " at " << e;
    }
}

TEST(packed_products, bits_of_a_row_do_not_depend_on_other_rows) {
  for (auto& d : all_devices()) {
    const gemm_spec all{.m = 61, .n = 45, .k = 300};
    const tensor a = gaussian(*d, {61, 300}, 1, dtype::f32), b = gaussian(*d, {300, 45}, 2, dtype::f32), packed = d->pack(all, b);
    tensor whole = empty(*d, {61, 45}, dtype::f32);
    d->gemm_packed(all, a, packed, whole);
    for (std::int64_t first = 0; first < 61; first += 7) {
      const auto rows = std::min<std::int64_t>(7, 61 - first);
      tensor part = empty(*d, {rows, 45}, dtype::f32);
      d->gemm_packed({.m = rows, .n = 45, .k = 300}, a.slice(first * 300, {rows, 300}), packed, part);
      EXPECT_EQ(values_of<float>(part), values_of<float>(whole.slice(first * 45, {rows, 45})));
    }
  }
}

tensor part_of(device& d, const tensor& x, std::int64_t example, std::int64_t examples, std::int64_t step, std::int64_t steps) {
  const auto t = x.dims()[1], n = x.dims()[2];
  tensor y = tensor::allocate(d, {examples, steps, n}, x.type());
  d.copy_block({examples, steps * n, (example * t + step) * n, t * n, 0, steps * n}, x, y);
  return y;
}

// A sequence in one packet has the same bits as in two parts with carried state, and the same bits
// example by example.
TEST(recurrent_layers, carry_state_from_one_packet_to_the_next) {
  const stock layers;
  for (const char* type : {"rnn", "lstm", "gru"})
    for (auto& d : all_devices()) {
      SCOPED_TRACE(type);
      const auto l = layers.make(type, {{{"units", std::int64_t{19}}}});
      const tensor x = gaussian(*d, {5, 8, 7}, 1, dtype::f32);
      tensors params;
      for (const auto& p : l->params({x.dims()})) params.push_back(gaussian(*d, p.dims, 10 + params.size(), dtype::f32));
      tensors end, half, both, ignored;
      context c{.dev = *d};
      c.carried_out = &end;
      const tensor whole = layers.forward(*l, c, {x}, params)[0];
      c.carried_out = &half;
      const tensor first = layers.forward(*l, c, {part_of(*d, x, 0, 5, 0, 3)}, params)[0];
      ASSERT_EQ(half.size(), l->carries({x.dims()}).size());
      c.carried_in = &half;
      c.carried_out = &both;
      const tensor second = layers.forward(*l, c, {part_of(*d, x, 0, 5, 3, 5)}, params)[0];
      EXPECT_EQ(values_of<float>(first), values_of<float>(part_of(*d, whole, 0, 5, 0, 3)));
      EXPECT_EQ(values_of<float>(second), values_of<float>(part_of(*d, whole, 0, 5, 3, 5)));
      for (std::size_t k = 0; k < end.size(); ++k) EXPECT_EQ(values_of<float>(both[k]), values_of<float>(end[k]));
      EXPECT_EQ(values_of<float>(end[0]), values_of<float>(part_of(*d, whole, 0, 5, 7, 1)));
      c.carried_in = nullptr;
      c.carried_out = nullptr;
      for (std::int64_t e = 0; e < 5; ++e)
        EXPECT_EQ(values_of<float>(layers.forward(*l, c, {part_of(*d, x, e, 1, 0, 8)}, params)[0]),
                  values_of<float>(part_of(*d, whole, e, 1, 0, 8)));
    }
}

// Gradients with a carried state, against central differences with a constant state.
TEST(recurrent_layers, gradients_with_carried_state_match_central_differences) {
  const stock layers;
  const auto d = make_cpu_device();
  for (const char* type : {"rnn", "lstm", "gru"}) {
    SCOPED_TRACE(type);
    const auto l = layers.make(type, {{{"units", std::int64_t{3}}}});
    tensor x = gaussian(*d, {2, 3, 2}, 1), dy = gaussian(*d, {2, 3, 3}, 2);
    tensors params, before, grad_in{tensor::declare(x.dims(), dtype::f64)}, grad_params,
        out{tensor::declare(dy.dims(), dtype::f64)};
    for (const auto& p : l->params({x.dims()})) {
      params.push_back(gaussian(*d, p.dims, 10 + params.size()));
      grad_params.push_back(tensor::declare(p.dims, dtype::f64));
    }
    for (const auto& s : l->carries({x.dims()})) before.push_back(gaussian(*d, s.dims, 30 + before.size()));
    context c{.dev = *d};
    c.carried_in = &before;
    const auto plan = l->prepare(*d, {x.dims()}, phase::train, dtype::f64);
    saved kept;
    l->forward(c, *plan, {x}, params, out, kept);
    l->backward(c, *plan, kept, params, {dy}, grad_in, grad_params, false);
    const auto objective = [&] {
      const auto y = layers.forward(*l, c, {x}, params)[0];
      double sum = 0;
      for (std::int64_t i = 0; i < y.count(); ++i) sum += y.data<double>()[i] * dy.data<double>()[i];
      return sum;
    };
    const auto check = [&](tensor& t, const tensor& gradient) {
      for (std::int64_t i = 0; i < t.count(); ++i) {
        auto& v = t.mutable_data<double>()[i];
        const double at = v, h = 1e-5;
        v = at + h;
        const double up = objective();
        v = at - h;
        const double down = objective();
        v = at;
        ASSERT_NEAR(gradient.data<double>()[i], (up - down) / (2 * h), 1e-7);
      }
    };
    check(x, grad_in[0]);
    for (std::size_t p = 0; p < params.size(); ++p) check(params[p], grad_params[p]);
  }
}

}  // namespace
}  // namespace troupe
