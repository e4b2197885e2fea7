// Sums over the memory of several GPUs.
#include <map>

#include "ops/cuda/stream.hpp"

namespace troupe::cuda {

// The first part of each GPU is added by NCCL. The other parts, of GPUs with several and of the
// host, are copied to this GPU and added one by one.
void stream::sum_across(const tensors& parts, tensor& out) {
  std::map<int, tensor> first;
  tensors rest;
  for (const auto& p : parts)
    if (p.space().host() || !first.emplace(p.space().device, p).second) rest.push_back(p);
  if (first.size() < 2 || !first.contains(gpu_->index)) return device::sum_across(parts, out);
  std::vector<int> devices;
  tensors list;
  for (const auto& [number, part] : first) {
    devices.push_back(number);
    list.push_back(part);
  }
  if (!across_ || across_->devices() != devices) across_ = std::make_unique<collective>(devices);
  across_->sum(list, out);
  for (const auto& p : rest) axpy(1.0, brought(*this, p), out);
}

}  // namespace troupe::cuda
