// Labels and ids from data: out-of-range values never cause access outside the tensors.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/filler.hpp"
#include "tests/ops/support.hpp"

namespace troupe {
namespace {

using namespace test;

constexpr std::int32_t beyond[] = {3, 4, 60000, std::numeric_limits<std::int32_t>::max()};

// Invalid data is noticed: the loss is NaN, as are the rows of an embedding.
TEST(labels, label_without_a_score_gives_nan_and_writes_nothing_else) {
  for (const auto& d : all_devices())
    for (const auto wrong : beyond) {
      const auto x = tensor_of<float>(*d, {2, 3}, {1, 2, 3, 4, 5, 6});
      const auto labels = tensor_of<std::int32_t>(*d, {2}, {1, wrong});
      auto p = empty(*d, {2, 3}, dtype::f32), loss = empty(*d, {}, dtype::f32);
      d->softmax_loss(0, {}, x, labels, p, loss);
      EXPECT_TRUE(std::isnan(values_of<float>(loss)[0])) << wrong;

      // The gradient is in the middle of memory of this test.
      auto all = empty(*d, {4, 3}, dtype::f32);
      d->fill(7, all);
      auto dx = all.slice(3, {2, 3});
      d->softmax_loss_backward(0, {}, p, labels, tensor_of<float>(*d, {}, {1}), dx);
      const auto now = values_of<float>(all);
      for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(now[i] == 7 && now[9 + i] == 7) << wrong;
      for (std::size_t i = 3; i < 6; ++i) EXPECT_TRUE(std::isfinite(now[i])) << wrong;
      for (std::size_t i = 6; i < 9; ++i) EXPECT_TRUE(std::isnan(now[i])) << wrong;
    }
}

TEST(labels, label_without_a_score_counts_as_wrong) {
  for (const auto& d : all_devices())
    for (const auto wrong : beyond) {
      // The scores of another row are at the label's position and are the largest.
      const auto x = tensor_of<float>(*d, {2, 3}, {1, 2, 3, 9, 9, 9});
      auto share = empty(*d, {}, dtype::f32);
      d->top_k(1, x, tensor_of<std::int32_t>(*d, {2}, {wrong, 0}), share);
      EXPECT_EQ(values_of<float>(share)[0], 0.5F) << wrong;
    }
}

// As padding_idx of torch.nn.Embedding.
TEST(labels, the_row_of_the_padding_id_begins_with_zeros_and_has_no_gradient) {
  stock all;
  const auto* type = all.rows.find("embedding");
  const auto made = [&](std::int64_t padding) {
    return type->make(check_options(
        options{{{"vocabulary", std::int64_t{4}}, {"outputs", std::int64_t{2}}, {"padding_id", padding}}}, type->specs));
  };
  const auto layer = made(1);
  const shapes in{shape{3}};
  EXPECT_THROW(made(4)->infer(in), option_error);
  for (const auto& d : all_devices()) {
    const auto spec = layer->params(in).front();
    auto w = tensor::declare(spec.dims, dtype::f32);
    fill_param(*d, spec, 7, 0, 0, w);
    const auto values = values_of<float>(w);
    for (std::size_t k = 0; k < values.size(); ++k) EXPECT_EQ(values[k] == 0, k / 2 == 1) << k;
    context c{*d};
    const auto plan = layer->prepare(*d, in, phase::train, dtype::f32);
    tensors out{tensor::declare({3, 2}, dtype::f32)}, grad_in(1), grads{tensor::declare({4, 2}, dtype::f32)};
    saved s;
    s.inputs = {tensor_of<std::int32_t>(*d, {3}, {1, 2, 1})};
    layer->forward(c, *plan, s.inputs, {tensor_of<float>(*d, {4, 2}, {0, 1, 2, 3, 4, 5, 6, 7})}, out, s);
    EXPECT_EQ(values_of<float>(out[0]), (std::vector<float>{2, 3, 4, 5, 2, 3}));
    for (const bool again : {false, true}) {
      layer->backward(c, *plan, s, {}, {tensor_of<float>(*d, {3, 2}, {1, 2, 3, 4, 5, 6})}, grad_in, grads, again);
      const float times = again ? 2 : 1;
      EXPECT_EQ(values_of<float>(grads[0]), (std::vector<float>{0, 0, 0, 0, 3 * times, 4 * times, 0, 0}));
    }
  }
}

// The weight of an evaluation's packet: the labels that count, or the sum of their weights.
TEST(labels, the_weight_of_a_mean_is_what_counts) {
  stock all;
  const auto weight = [&](device& d, const std::string& name, const options& given, const shape& scores) {
    const auto* type = all.rows.find(name);
    const auto layer = type->make(check_options(given, type->specs));
    context c{d};
    const tensors in{empty(d, scores, dtype::f32), tensor_of<std::int32_t>(d, {4}, {2, -1, 0, -100})};
    return values_of<float>(layer->mean_weight(c, in))[0];
  };
  for (const auto& d : all_devices()) {
    for (const char* name : {"softmax_loss", "accuracy", "hinge", "sigmoid_cross_entropy"})
      EXPECT_EQ(weight(*d, name, {}, {4, 3}), 2) << name;
    EXPECT_EQ(weight(*d, "softmax_loss", {{{"class_weights", std::vector<double>{0.5, 8, 2}}}}, {4, 3}), 2.5F);
    EXPECT_EQ(weight(*d, "sigmoid_cross_entropy", {}, {4, 1}), 2);
  }
}

}  // namespace
}  // namespace troupe
