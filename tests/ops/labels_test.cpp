// Labels and ids from data: out-of-range values never cause access outside the tensors.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

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

}  // namespace
}  // namespace troupe
