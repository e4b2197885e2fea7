// Lower bounds of a layer's work in a training step: the operations of its products, and the bytes
// that must be read and written once if none are cached. `troupe time` prints them for comparison
// with measured times.
#pragma once

#include <string>

#include "runtime/job/job.hpp"

namespace troupe {

struct layer_work {
  double forward_flops = 0, backward_flops = 0;  // of all packets of a step
  double forward_bytes = 0, backward_bytes = 0;
};

// Work of the layers that are computed as one under this name ("conv1+relu1").
layer_work work_of(const prepared_job& j, const std::string& names);

}  // namespace troupe
