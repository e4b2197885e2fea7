// Sums over GPUs by NCCL. Every GPU has a stream of its own for them, so that they run beside the
// computation; they wait for what writes the parts (order.hpp).
// Errors: std::runtime_error, with NCCL's text.
// Threads: one at a time. Calls of several objects are enqueued one after the other, because GPUs
// must see them in the same order.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "ops/cuda/nccl_api.hpp"
#include "ops/cuda/order.hpp"
#include "ops/tensor.hpp"

namespace troupe::cuda {

class collective {
 public:
  // Makes a communicator of these GPUs, which differ.
  explicit collective(std::vector<int> devices);
  ~collective();
  collective(const collective&) = delete;
  collective& operator=(const collective&) = delete;

  const std::vector<int>& devices() const { return devices_; }
  // out = the sum of the parts, one on each GPU in the order of devices(). out is on one of them.
  void sum(const tensors& parts, tensor& out);

 private:
  std::vector<int> devices_;
  std::vector<std::shared_ptr<queue>> queues_;
  std::vector<nccl_comm> comms_;
  bool failed_ = false;
};

}  // namespace troupe::cuda
