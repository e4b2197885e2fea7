// The example layers pass check_layer_type.
#include <gtest/gtest.h>

#include "ops/check_layer.hpp"
#include "runtime/job/plugin_abi.hpp"

namespace troupe {
namespace {

class swish_example : public testing::TestWithParam<const char*> {};

TEST_P(swish_example, passes_check_layer) {
  auto t = stock_tables();
  register_plugin(t);
  EXPECT_EQ(troupe_abi_version(), abi_version);
  const auto dev = make_cpu_device();
  const auto* row = t.layers.find(GetParam());
  ASSERT_NE(row, nullptr);
  for (const auto& finding : check_layer_type(*row, *dev)) ADD_FAILURE() << finding;
}
INSTANTIATE_TEST_SUITE_P(layers, swish_example, testing::Values("swish", "learned_swish"));

}  // namespace
}  // namespace troupe
