#include "ops/cuda/collective.hpp"

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <string>

#include "ops/cuda/pool.hpp"

namespace troupe::cuda {
namespace {

std::mutex enqueuing_collectives;

std::string names_of(const std::vector<int>& devices) {
  std::string s;
  for (auto d : devices) s += (s.empty() ? "gpu:" : ", gpu:") + std::to_string(d);
  return s;
}

nccl_type type_of(dtype t) {
  switch (t) {
    case dtype::f32: return nccl_f32;
    case dtype::f64: return nccl_f64;
    case dtype::bf16: return nccl_bf16;
    default: throw std::logic_error("nccl: sums of this type are not supported");
  }
}

gpu_block& block_of(const tensor& t) { return static_cast<gpu_block&>(*t.block()); }

}  // namespace

collective::collective(std::vector<int> devices) : devices_(std::move(devices)), comms_(devices_.size()) {
  for (auto d : devices_) queues_.push_back(std::make_shared<queue>(d));
  const std::lock_guard guard(enqueuing_collectives);
  const auto r = nccl().comm_init_all(comms_.data(), static_cast<int>(devices_.size()), devices_.data());
  if (r != nccl_success) throw std::runtime_error("NCCL cannot connect " + names_of(devices_) + ": " + nccl().error_string(r));
}

collective::~collective() {
  for (auto c : comms_) failed_ ? nccl().comm_abort(c) : nccl().comm_destroy(c);
}

void collective::sum(const tensors& parts, tensor& out) {
  const auto root = std::find(devices_.begin(), devices_.end(), out.space().device) - devices_.begin();
  const std::lock_guard guard(enqueuing_collectives);
  const auto passes = [this](int r) {
    if (r == nccl_success) return;
    failed_ = true;
    throw std::runtime_error("NCCL cannot add over " + names_of(devices_) + ": " + nccl().error_string(r));
  };
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const current_device here(devices_[i]);
    block_of(parts[i]).used->before_read(*queues_[i]);
    if (static_cast<std::ptrdiff_t>(i) == root) block_of(out).used->before_write(*queues_[i]);
  }
  passes(nccl().group_start());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    auto* to = block_of(out).data + out.offset();
    const auto r = nccl().reduce(block_of(parts[i]).data + parts[i].offset(), static_cast<std::ptrdiff_t>(i) == root ? to : nullptr,
                                 static_cast<std::size_t>(out.count()), type_of(out.type()), nccl_sum, static_cast<int>(root),
                                 comms_[i], queues_[i]->stream());
    if (r != nccl_success) {
      nccl().group_end();
      passes(r);
    }
  }
  passes(nccl().group_end());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const position p{queues_[i], queues_[i]->count()};
    block_of(parts[i]).used->was_read(p);
    if (static_cast<std::ptrdiff_t>(i) == root) block_of(out).used->was_written(p);
  }
}

}  // namespace troupe::cuda
