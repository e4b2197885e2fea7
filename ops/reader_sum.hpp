// The gradient of a tensor that several layers read (docs/ARCHITECTURE.md, invariant 6): the sum of
// the readers' gradients in layer order. A reader that uses the tensor for several inputs first
// adds their gradients in input order, as it does on another node.
#pragma once

#include <utility>

#include "ops/device.hpp"

namespace troupe {

class reader_sum {
 public:
  // Adds `part`; an empty part adds nothing. The first part is used as it is. Further parts are
  // added in its memory if there is no other handle; otherwise the sum gets new memory, since sent
  // tensors are immutable and a layer's result may be a view of another tensor.
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
  // Empty if all parts were empty.
  tensor take() { return std::move(sum_); }

 private:
  tensor sum_;
  bool own_ = false;
};

}  // namespace troupe
