// Registries are objects: main builds them (ops/layers/catalog.cpp adds the stock layers), plugins
// add rows, and they are passed on.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/layer.hpp"
#include "ops/options.hpp"
#include "ops/type_table.hpp"

namespace troupe {

// One case for check_layer: options and input shapes; the layer's file ships at least five.
struct layer_case {
  std::string name;
  options given;
  shapes in;
  bool integer_labels = false;  // last input is a label in [0, classes)
  std::int64_t classes = 0;
};

struct layer_type {
  std::string name;  // as in `type = "convolution"`
  std::string doc;   // formula, shapes, gradient, paper: what `troupe layers NAME` prints
  option_specs specs;
  std::function<std::unique_ptr<layer>(const options&)> make;  // options already checked; may throw option_error
  std::vector<layer_case> cases;
  int min_inputs = 1, max_inputs = 1;
  bool takes_bf16 = false;  // it leaves values to the device, or knows tensors of bf16 itself: a bf16 job may use it
};

class layer_registry : public type_table<layer_type> {};

void add_stock_layers(layer_registry& r);  // ops/layers/catalog.cpp

}  // namespace troupe
