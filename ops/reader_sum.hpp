// The gradient of a tensor that several layers read (docs/ARCHITECTURE.md, invariant 6): the
// readers' gradients, one after the other in layer order; one that reads it through several inputs
// adds those up first, in the order of its inputs, as it does where it lies elsewhere.
#pragma once

#include <utility>

#include "ops/device.hpp"

namespace troupe {

class reader_sum {
 public:
  // An empty part adds nothing. The first is taken as it is; from the second on the sum is made in
  // the first one's memory when nobody else has it, and else gets its own, since what was sent is
  // immutable and what a layer made may be a view of something else.
  void add(device& d, tensor part) {
    if (!part) return;
    if (!sum_) {
      sum_ = std::move(part);
    } else if (own_ || (own_ = reclaim(d, sum_))) {
      d.axpy(1.0, part, sum_);
    } else {
      auto both = tensor::allocate(d, sum_.dims(), sum_.type());
      d.apply(binary::add, sum_, part, both);
      sum_ = std::move(both);
      own_ = true;
    }
  }
  // Empty: nobody had any.
  tensor take() { return std::move(sum_); }

 private:
  tensor sum_;
  bool own_ = false;
};

}  // namespace troupe
