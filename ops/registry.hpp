// The registry of layer types. Registries are objects: main builds them (ops/layers/catalog.cpp
// adds the stock layers), plugins add entries, and they are passed on.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/layer.hpp"
#include "ops/options.hpp"
#include "ops/type_table.hpp"

namespace troupe {

// A case for check_layer: options and input shapes. A layer's file has at least five.
struct layer_case {
  std::string name;
  options given;
  shapes in;
  bool integer_labels = false;  // the last input holds labels in [0, classes)
  std::int64_t classes = 0;
};

struct layer_type {
  std::string name;  // as in `type = "convolution"`
  std::string doc;   // formula, shapes, gradient, paper; printed by `troupe layers NAME`
  option_specs specs;
  std::function<std::unique_ptr<layer>(const options&)> make;  // options are already checked; may throw option_error
  std::vector<layer_case> cases;
  int min_inputs = 1, max_inputs = 1;
  bool takes_bf16 = false;  // supports bf16 tensors, by itself or because only the device accesses the values; allowed in bf16 jobs
};

class layer_registry : public type_table<layer_type> {};

void add_stock_layers(layer_registry& r);  // ops/layers/catalog.cpp

}  // namespace troupe
