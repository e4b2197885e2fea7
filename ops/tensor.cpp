#include "ops/tensor.hpp"

#include <stdexcept>
#include <string>

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

void tensor::misread(dtype as) const {
  throw std::logic_error("a tensor (" + shape_.to_string() + ") of " + name_of(dtype_) + " is read as " + name_of(as));
}

void tensor::not_on_host() const {
  throw std::logic_error(
      "a tensor (" + shape_.to_string() + ") is in the memory of device " + std::to_string(storage_->space.device) +
      " and is accessed by code for the CPU: use the primitives of ops/device.hpp, or place this layer on a CPU");
}

void tensor::back(device& d) {
  assert(present_);
  if (!storage_) storage_ = d.allocate(bytes());
}

}  // namespace troupe
