// Base of max_pool and avg_pool: options and geometry. Output extents follow Caffe: rounded up by
// default, and a last window that would start beyond image and padding is dropped.
#pragma once

#include "ops/layer_support.hpp"
#include "ops/window_options.hpp"

namespace troupe {

struct pooling : layer {
  explicit pooling(const options& o);
  pool_geometry geometry(const shape& x) const;
  shapes infer(const shapes& in) const override;
  signatures supported() const override;

 private:
  by_axes kernel_, stride_, pad_;
  bool ceil_, count_padding_;
};

// Returns a copy of the layer if it is a max_pool, otherwise null.
std::shared_ptr<const pooling> as_max_pool(const layer& l);

option_specs pooling_options();
std::vector<layer_case> pooling_cases();

}  // namespace troupe
