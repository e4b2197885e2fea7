// check_layer for every entry and case of the catalog, on every available device (support.hpp).
#include <gtest/gtest.h>

#include "ops/check_layer.hpp"
#include "tests/ops/support.hpp"

namespace troupe {
namespace {

std::vector<std::string> layer_names() {
  layer_registry r;
  add_stock_layers(r);
  return r.names();
}

class stock_layer : public testing::TestWithParam<std::string> {};

TEST_P(stock_layer, passes_check_layer_on_every_device) {
  layer_registry r;
  add_stock_layers(r);
  for (const auto& each : test::device_cases()) {
    if (each.name == "v4" && make_cpu_device("x86-64-v4-amx")) continue;  // the same kernels except for the tiles
    const auto dev = each.make();
    layer_check how{.samples = 40, .seeds = 1};  // check_layer_draws_test.cpp uses the default number
    // Drawn numbers depend on the last bit; bf16_primitives_test.cpp checks the rest.
    if (GetParam() == "rbm") how.bf16_tolerance = 1e30;
    if (GetParam() == "rnn") how.bf16_tolerance = 0.3;  // a relu state that is nearly 0 may be on the other side of the kink
    for (const auto& finding : check_layer_type(*r.find(GetParam()), *dev, how)) ADD_FAILURE() << each.name << ": " << finding;
  }
}

INSTANTIATE_TEST_SUITE_P(catalogue, stock_layer, testing::ValuesIn(layer_names()),
                         [](const testing::TestParamInfo<std::string>& row) { return row.param; });

}  // namespace
}  // namespace troupe
