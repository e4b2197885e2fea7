// Numbers that come from data and name a place: whatever they are, nothing is read or written
// outside of the tensors.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/ops/support.hpp"

namespace troupe {
namespace {

using namespace test;

constexpr std::int32_t beyond[] = {3, 4, 60000, std::numeric_limits<std::int32_t>::max()};

// Wrong data does not pass unseen: the loss is NaN, as an embedding's rows are.
TEST(labels, a_class_without_a_score_makes_the_loss_nan_and_touches_nothing_else) {
  for (const auto& d : all_devices())
    for (const auto wrong : beyond) {
      const auto x = tensor_of<float>(*d, {2, 3}, {1, 2, 3, 4, 5, 6});
      const auto labels = tensor_of<std::int32_t>(*d, {2}, {1, wrong});
      auto p = empty(*d, {2, 3}, dtype::f32), loss = empty(*d, {}, dtype::f32);
      d->softmax_loss(x, labels, p, loss);
      EXPECT_TRUE(std::isnan(values_of<float>(loss)[0])) << wrong;

      // The gradient in the middle of memory that is ours.
      auto all = empty(*d, {4, 3}, dtype::f32);
      d->fill(7, all);
      auto dx = all.slice(3, {2, 3});
      d->softmax_loss_backward(p, labels, tensor_of<float>(*d, {}, {1}), dx);
      const auto now = values_of<float>(all);
      for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(now[i] == 7 && now[9 + i] == 7) << wrong;
      for (std::size_t i = 3; i < 6; ++i) EXPECT_TRUE(std::isfinite(now[i])) << wrong;
      for (std::size_t i = 6; i < 9; ++i) EXPECT_TRUE(std::isnan(now[i])) << wrong;
    }
}

TEST(labels, a_class_without_a_score_is_never_a_hit) {
  for (const auto& d : all_devices())
    for (const auto wrong : beyond) {
      // The scores of another row lie where the label points to, and are the largest.
      const auto x = tensor_of<float>(*d, {2, 3}, {1, 2, 3, 9, 9, 9});
      auto share = empty(*d, {}, dtype::f32);
      d->top_k(1, x, tensor_of<std::int32_t>(*d, {2}, {wrong, 0}), share);
      EXPECT_EQ(values_of<float>(share)[0], 0.5F) << wrong;
    }
}

}  // namespace
}  // namespace troupe
