// What a layer has to do at the least in a training step: the operations of its products, and the
// bytes that have to be read and written once when nothing of them is in a cache. For `troupe
// time`, whose reader holds measured times against it.
#pragma once

#include <string>

#include "runtime/job/job.hpp"

namespace troupe {

struct layer_work {
  double forward_flops = 0, backward_flops = 0;  // all packets
  double forward_bytes = 0, backward_bytes = 0;
};

// Of the layers that are computed as one under this name ("conv1+relu1").
layer_work work_of(const prepared_job& j, const std::string& names);

}  // namespace troupe
