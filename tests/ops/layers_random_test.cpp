// Layers with random options and shapes: gradients against central differences to 1e-7, and the
// other checks of check_layer. Three hundred cases per type.
#include <gtest/gtest.h>

#include <cstdlib>

#include "ops/check_layer.hpp"
#include "tests/environment.hpp"
#include "tests/ops/random_layers.hpp"

namespace troupe {
namespace {

class random_layer : public testing::TestWithParam<std::string> {};

TEST_P(random_layer, passes_check_layer_for_random_shapes) {
  const auto count = static_cast<int>(from_environment("TROUPE_SEEDS", 300));
  layer_registry r;
  add_stock_layers(r);
  const auto dev = make_cpu_device();
  test::random_layers draw(7);
  for (int n = 0; n < count; ++n) {
    const auto c = draw.draw(GetParam(), n);
    std::string shapes_text = to_string(c.in);
    layer_check how{.step = 1e-5, .tolerance = 1e-7, .samples = 6, .seeds = 1};
    if (GetParam() == "rbm") how.bf16_tolerance = 1e30;  // as in layers_test.cpp
    for (const auto& finding : check_layer(*r.find(GetParam()), c, *dev, how))
      ADD_FAILURE() << "case " << n << " (" << shapes_text << "): " << finding;
  }
}

INSTANTIATE_TEST_SUITE_P(catalogue, random_layer, testing::ValuesIn(test::random_layers::types()),
                         [](const testing::TestParamInfo<std::string>& row) { return row.param; });

}  // namespace
}  // namespace troupe
