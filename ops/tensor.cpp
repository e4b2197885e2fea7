#include "ops/tensor.hpp"

#include "ops/device.hpp"

namespace troupe {

tensor tensor::allocate(device& d, shape s, dtype t) {
  tensor x = declare(s, t);
  x.back(d);
  return x;
}

tensor tensor::borrow(void* data, shape s, dtype t) {
  tensor x = declare(s, t);
  auto view = std::make_shared<storage>();
  view->foreign = true;
  view->data = static_cast<std::byte*>(data);
  view->bytes = x.bytes();
  x.storage_ = std::move(view);
  return x;
}

void tensor::back(device& d) {
  assert(present_);
  if (!storage_) storage_ = d.allocate(bytes());
}

}  // namespace troupe
