#include "ops/cuda/gpu.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace troupe::cuda {
namespace {

// Raised when a kernel's results change.
constexpr int kernels_version = 1;

bool is_done(const event& e) {
  try {
    return e.done();
  } catch (const cuda_error&) {
    return true;  // the device is lost: the function that waits finds that out by its next call
  }
}

}  // namespace

cudaDeviceProp properties_of(int index) {
  cudaDeviceProp p{};
  check(cudaGetDeviceProperties(&p, index), "cudaGetDeviceProperties");
  return p;
}

std::string numerics_id_of(const cudaDeviceProp& p) {
  return "gpu/sm_" + std::to_string(p.major) + std::to_string(p.minor) + "/" + std::to_string(p.multiProcessorCount) + "/cuda" +
         std::to_string(CUDART_VERSION) + "/cudnn" + std::to_string(cudnnGetVersion()) + "/k" + std::to_string(kernels_version);
}

void event_watch::when_done(std::shared_ptr<event> e, std::function<void()> then) {
  const std::lock_guard guard(state_->lock);
  state_->waits.push_back({std::move(e), std::move(then)});
  if (!thread_.joinable()) thread_ = std::thread(&event_watch::run, device_, state_);
  state_->changed.notify_one();
}

event_watch::~event_watch() {
  {
    const std::lock_guard guard(state_->lock);
    state_->ends = true;
  }
  state_->changed.notify_one();
  if (thread_.get_id() == std::this_thread::get_id())
    thread_.detach();
  else if (thread_.joinable())
    thread_.join();
}

void event_watch::run(int device, std::shared_ptr<state> s) {
  cudaSetDevice(device);  // if it fails, the events' queries do, too
  std::unique_lock guard(s->lock);
  while (!s->ends || !s->waits.empty()) {
    if (s->waits.empty()) {
      s->changed.wait(guard);
      continue;
    }
    auto look = std::exchange(s->waits, {});
    guard.unlock();
    const auto rest = std::stable_partition(look.begin(), look.end(), [](const waiting& w) { return is_done(*w.when); });
    for (auto i = look.begin(); i != rest; ++i) {
      i->when.reset();  // then() may be what releases the device
      i->then();
    }
    const bool none = rest == look.begin();
    look.erase(look.begin(), rest);
    guard.lock();
    s->waits.insert(s->waits.begin(), std::make_move_iterator(look.begin()), std::make_move_iterator(look.end()));
    if (none) s->changed.wait_for(guard, std::chrono::microseconds(20));
  }
}

pinned_pool::~pinned_pool() {
  for (auto& [size, list] : free_)
    for (auto* p : list) cudaFreeHost(p);
}

std::shared_ptr<std::byte> pinned_pool::take(std::size_t bytes) {
  const auto size = block_size(bytes);
  void* p = nullptr;
  {
    const std::lock_guard guard(lock_);
    if (auto& list = free_[size]; !list.empty()) {
      p = list.back();
      list.pop_back();
    }
  }
  if (!p) check(cudaHostAlloc(&p, size, cudaHostAllocDefault), "cudaHostAlloc");
  return {static_cast<std::byte*>(p), [self = shared_from_this(), size](std::byte* q) {
            const std::lock_guard guard(self->lock_);
            self->free_[size].push_back(q);
          }};
}

gpu::gpu(int i) : index(i), host(make_cpu_device()), convolutions(i), watch(i) {
  check(cudaSetDevice(index), "cudaSetDevice");
  const auto p = properties_of(index);
  name = "gpu:" + std::to_string(index) + " (" + p.name + ")";
  numerics_id = numerics_id_of(p);
  memory = std::make_shared<pool>(index, name);
}

}  // namespace troupe::cuda
