// The example layer passes check_layer_type.
#include <gtest/gtest.h>

#include "ops/check_layer.hpp"
#include "runtime/job/plugin_abi.hpp"

namespace troupe {
namespace {

TEST(swish_example, passes_check_layer) {
  auto t = stock_tables();
  register_plugin(t);
  EXPECT_EQ(troupe_abi_version(), abi_version);
  const auto dev = make_cpu_device();
  const auto* row = t.layers.find("swish");
  ASSERT_NE(row, nullptr);
  for (const auto& finding : check_layer_type(*row, *dev)) ADD_FAILURE() << finding;
}

}  // namespace
}  // namespace troupe
