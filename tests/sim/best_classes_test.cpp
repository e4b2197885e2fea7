#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/plain/prediction.hpp"

namespace troupe {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

TEST(best_classes, by_class_makes_probabilities_of_scores) {
  EXPECT_THAT(by_class(answer::softmax, {1000, 1000 + std::log(3.0)}), ElementsAre(DoubleNear(0.25, 1e-9), DoubleNear(0.75, 1e-9)));
  EXPECT_THAT(by_class(answer::sigmoid, {0, std::log(3.0)}), ElementsAre(DoubleNear(0.5, 1e-12), DoubleNear(0.75, 1e-12)));
  EXPECT_THAT(by_class(answer::scores, {3, 1, 2}), ElementsAre(3, 1, 2));
  EXPECT_THAT(by_class(answer::values, {5}), ElementsAre(5));
}
TEST(best_classes, by_class_makes_no_and_yes_of_one_value) {
  EXPECT_THAT(by_class(answer::sigmoid, {std::log(3.0)}), ElementsAre(DoubleNear(0.25, 1e-12), DoubleNear(0.75, 1e-12)));
  EXPECT_THAT(by_class(answer::scores, {2}), ElementsAre(-2, 2));
}
TEST(best_classes, prefers_the_lower_of_equal_classes) {
  EXPECT_THAT(best_classes({1, 3, 3, 2}, 3), ElementsAre(1, 2, 3));
  EXPECT_THAT(best_classes({1, 1}, 5), ElementsAre(0, 1));
}
TEST(best_classes, has_no_class_when_a_value_is_nan) {
  EXPECT_THAT(best_classes({1, nan_value, 2}, 2), ElementsAre(-1, -1));
  EXPECT_THAT(best_classes({nan_value}, 1), ElementsAre(-1));
}

}  // namespace
}  // namespace troupe
