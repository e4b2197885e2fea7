// Lists the convolutions that a job computes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/conv_algorithm.hpp"
#include "runtime/model/graph.hpp"

namespace troupe {

// One pass of a layer's convolution, for one whole packet.
struct conv_task {
  std::uint32_t layer = 0;
  std::string name;  // of the layer
  conv_pass pass = conv_pass::forward;
  conv_geometry geometry;
};

// Returns all passes of training, in layer order.
std::vector<conv_task> conv_tasks(const model_graph& g);

}  // namespace troupe
