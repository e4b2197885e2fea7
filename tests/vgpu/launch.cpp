// Launches of kernels on the virtual GPU.
#include <algorithm>
#include <numeric>
#include <string_view>

#include "tests/vgpu/block_run.hpp"
#include "tests/vgpu/machine.hpp"

namespace troupe::vgpu {

// In cudart.cpp: the error that cudaGetLastError() returns.
void set_last_error(cudaError_t e);
int current_device();

namespace {

// Largest sizes of a launch without further attributes (CUDA C++ Programming Guide, "Compute
// Capabilities").
bool valid(dim3 grid, dim3 block, std::size_t shared) {
  const auto threads = static_cast<std::uint64_t>(block.x) * block.y * block.z;
  return threads > 0 && threads <= 1024 && block.z <= 64 && grid.x > 0 && grid.x <= 2147483647u && grid.y > 0 && grid.y <= 65535 &&
         grid.z > 0 && grid.z <= 65535 && shared <= 48 << 10;
}

// The kernel's name in the signature of cuda::launch<...>(), or the whole of it.
std::string kernel_name(std::string_view signature) {
  const auto at = signature.find("[with ");
  return std::string(at == std::string_view::npos ? signature : signature.substr(at + 6, 80));
}

void run_blocks(const std::string& name, dim3 grid, dim3 block, std::size_t shared, const options& o, std::uint64_t seed,
                std::function<void()>& thread) {
  std::vector<std::uint32_t> order(static_cast<std::size_t>(grid.x) * grid.y * grid.z);
  std::iota(order.begin(), order.end(), 0);
  std::minstd_rand random(static_cast<std::uint_fast32_t>(seed % 2147483646 + 1));
  if (o.shuffled) std::shuffle(order.begin(), order.end(), random);
  block_launch l;
  l.kernel = name.c_str(), l.grid = grid, l.block = block, l.dynamic_bytes = shared, l.shuffled = o.shuffled;
  for (const auto i : order) {
    l.at = {i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y};
    l.seed = seed + i;
    block_run::mine().run(
        l, [](void* f) { (*static_cast<std::function<void()>*>(f))(); }, &thread);
  }
}

}  // namespace

void enqueue(cudaStream_t s, std::string name, std::vector<access> uses, std::function<void()> run) {
  std::lock_guard guard(machine::lock);
  auto& m = machine::now();
  if (auto* stream = m.stream_of(s)) set_last_error(m.append(*stream, name, uses, std::move(run)));
}

void launch_kernel(cudaStream_t s, const char* signature, std::vector<access> uses, dim3 grid, dim3 block, std::size_t shared,
                   std::function<void()> thread) {
  std::lock_guard guard(machine::lock);
  auto& m = machine::now();
  ++m.counted.kernels;
  if (!valid(grid, block, shared)) return set_last_error(cudaErrorInvalidConfiguration);
  auto* stream = m.stream_of(s);
  if (!stream) return;
  if (stream->device != current_device()) return set_last_error(cudaErrorInvalidResourceHandle);
  const auto name = kernel_name(signature);
  const auto seed = m.random();
  set_last_error(m.append(*stream, name, uses, [=, o = m.chosen, thread = std::move(thread)]() mutable {
    run_blocks(name, grid, block, shared, o, seed, thread);
  }));
}

}  // namespace troupe::vgpu
