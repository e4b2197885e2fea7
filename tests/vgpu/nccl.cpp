// NCCL of the virtual GPU: sums over devices, in an order of their own. A rank's part is read when
// its stream comes that far, and the root waits for all of them.
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ops/cuda/nccl_api.hpp"
#include "ops/cuda/order.hpp"
#include "tests/vgpu/device_state.hpp"

struct ncclComm {
  int rank, ranks, device;
};

namespace {

using namespace troupe::cuda;
using troupe::vgpu::found;

constexpr int cuda_failed = 1, invalid_usage = 5;

struct call {
  const void* from;
  void* to;
  std::size_t count;
  nccl_type type;
  int root;
  ncclComm* comm;
  cudaStream_t stream;
};
thread_local std::vector<call> calls;  // of the group
thread_local int depth = 0;

std::size_t size_of(nccl_type t) { return t == nccl_f64 ? 8 : 4; }

// From the rank behind the root onwards, as a ring adds.
template <class T>
void add_around(const std::vector<std::vector<std::byte>>& parts, std::size_t root, void* to, std::size_t count) {
  auto* out = static_cast<T*>(to);
  for (std::size_t i = 0; i < count; ++i) {
    T sum = 0;
    for (std::size_t k = 1; k <= parts.size(); ++k) sum += reinterpret_cast<const T*>(parts[(root + k) % parts.size()].data())[i];
    out[i] = sum;
  }
}

bool valid(const std::vector<call>& all) {
  const auto& first = all.front();
  if (all.size() != static_cast<std::size_t>(first.comm->ranks)) return found("an NCCL group without all ranks"), false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].comm->rank != static_cast<int>(i)) return found("an NCCL group whose ranks are not in order"), false;
    if (all[i].count != first.count || all[i].type != first.type || all[i].root != first.root)
      return found("NCCL ranks with different counts, types or roots"), false;
    if (all[i].type != nccl_f32 && all[i].type != nccl_f64) return found("an NCCL sum of an unknown type"), false;
  }
  return true;
}

// Makes the stream wait for everything in the rank's stream.
bool waits(cudaStream_t s, const call& rank) {
  const current_device here(rank.comm->device);
  const event sent;
  return cudaEventRecord(sent.get(), rank.stream) == cudaSuccess && cudaStreamWaitEvent(s, sent.get(), 0) == cudaSuccess;
}

int begin(const std::vector<call>& all) {
  if (!valid(all)) return invalid_usage;
  const auto& root = all[static_cast<std::size_t>(all.front().root)];
  const auto bytes = root.count * size_of(root.type);
  auto parts = std::make_shared<std::vector<std::vector<std::byte>>>(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    troupe::vgpu::enqueue(all[i].stream, "an NCCL part", {{all[i].from, false, bytes}}, [=, from = all[i].from] {
      const auto* at = static_cast<const std::byte*>(troupe::vgpu::device_memory(from));
      (*parts)[i].assign(at, at + bytes);
    });
    if (!waits(root.stream, all[i])) return cuda_failed;
  }
  troupe::vgpu::enqueue(root.stream, "an NCCL sum", {{root.to, true, bytes}}, [=] {
    auto* to = troupe::vgpu::device_memory(root.to);
    const auto at = static_cast<std::size_t>(root.root);
    root.type == nccl_f64 ? add_around<double>(*parts, at, to, root.count) : add_around<float>(*parts, at, to, root.count);
  });
  return nccl_success;
}

int init_all(nccl_comm* comms, int n, const int* devices) {
  int there = 0;
  if (cudaGetDeviceCount(&there) != cudaSuccess) return cuda_failed;
  for (int i = 0; i < n; ++i) {
    if (devices[i] >= there) return invalid_usage;
    for (int k = 0; k < i; ++k)
      if (devices[k] == devices[i]) return invalid_usage;
    comms[i] = new ncclComm{i, n, devices[i]};
  }
  return nccl_success;
}

int destroy(nccl_comm c) {
  delete c;
  return nccl_success;
}

int group_start() {
  ++depth;
  return nccl_success;
}

int group_end() {
  if (--depth > 0) return nccl_success;
  const auto all = std::exchange(calls, {});
  return all.empty() ? nccl_success : begin(all);
}

int reduce(const void* from, void* to, std::size_t count, nccl_type type, nccl_operation op, int root, nccl_comm comm,
           cudaStream_t s) {
  if (op != nccl_sum) return invalid_usage;
  if (depth == 0) return found("ncclReduce of one thread for several GPUs outside of a group"), invalid_usage;
  calls.push_back({from, to, count, type, root, comm, s});
  return nccl_success;
}

const char* error_string(int r) { return r == cuda_failed ? "unhandled cuda error" : "invalid usage"; }

}  // namespace

namespace troupe::cuda {

const nccl_api& nccl() {
  static const nccl_api a{init_all, destroy, destroy, group_start, group_end, reduce, error_string};
  if (std::getenv("TROUPE_VGPU_NO_NCCL") != nullptr)
    throw std::runtime_error("reducer nccl: NCCL cannot be loaded: libnccl.so.2: cannot open shared object file");
  return a;
}

}  // namespace troupe::cuda
