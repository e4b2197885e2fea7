// Shapes of the tensors of a job under construction, as far as they are known. Layers of Caffe that
// move pixels by factors need the extents of their bottoms.
// Threads: one import, one thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ops/registry.hpp"
#include "runtime/node/models/caffe/job_model.hpp"

namespace troupe::caffe {

class job_shapes {
 public:
  // The list may grow, and what it holds stays as it is.
  explicit job_shapes(const std::vector<job_layer>& layers) : layers_(layers) { add_stock_layers(stock_); }
  // Of the tensor "data".
  void set_example(const std::vector<std::int64_t>& extents);
  // Extents of an example of the tensor, without the axis of examples; empty: not known.
  std::vector<std::int64_t> of(const std::string& tensor);

 private:
  void add(const job_layer& l);

  const std::vector<job_layer>& layers_;
  std::size_t next_ = 0;  // the first layer whose shapes are not computed yet
  layer_registry stock_;
  std::map<std::string, shape> known_;  // by tensor, for one example
};

}  // namespace troupe::caffe
