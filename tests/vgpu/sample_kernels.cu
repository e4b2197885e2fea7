#include "tests/vgpu/sample_kernels.hpp"

#include "ops/cuda/kernel_language.hpp"

namespace troupe::vgpu {
namespace {

using cuda::dynamic_shared;
using cuda::launch;

__global__ void double_kernel(std::int64_t n, const float* x, float* y) {
  const auto step = static_cast<std::int64_t>(blockDim.x) * gridDim.x;
  for (auto i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) y[i] = 2 * x[i];
}

__device__ float warp_sum(float v) {
  for (unsigned d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);
  return v;
}

template <mistake M>
__global__ void __launch_bounds__(256) sum_rows_kernel(std::int64_t n, const float* x, float* out) {
  TROUPE_SHARED(float, 8, parts);
  const int t = static_cast<int>(threadIdx.x);
  float sum = 0;
  for (std::int64_t i = t; i < n; i += 256) sum += x[blockIdx.x * n + i];
  sum = warp_sum(sum);
  if (t % 32 == 0) parts[M == mistake::one_beyond_shared ? t / 32 + 1 : t / 32] = sum;
  if (M != mistake::no_barrier) __syncthreads();
  if (t >= 32) return;
  sum = 0;
  if (t < 8) sum = parts[t];
  sum = warp_sum(sum);
  if (t == 0) out[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(256) tree_kernel(std::int64_t n, const float* x, float* out) {
  auto parts = dynamic_shared<float>();
  const int t = static_cast<int>(threadIdx.x);
  float sum = 0;
  for (std::int64_t i = t; i < n; i += blockDim.x) sum += x[blockIdx.x * n + i];
  parts[t] = sum;
  for (int half = static_cast<int>(blockDim.x) / 2; half > 0; half /= 2) {
    __syncthreads();
    if (t < half) parts[t] += parts[t + half];
  }
  if (t == 0) out[blockIdx.x] = parts[0];
}

constexpr int tile = 16;
template <mistake M>
__global__ void transpose_kernel(std::int64_t rows, std::int64_t columns, const float* x, float* y) {
  TROUPE_SHARED(float, tile*(tile + 1), part);
  const int a = static_cast<int>(threadIdx.x), b = static_cast<int>(threadIdx.y);
  const auto first = static_cast<std::int64_t>(blockIdx.x) * tile;
  for (std::int64_t c = 0; c < columns; c += tile) {
    if (first + b < rows && c + a < columns) part[b * (tile + 1) + a] = x[(first + b) * columns + c + a];
    __syncthreads();
    if (first + a < rows && c + b < columns) y[(c + b) * rows + first + a] = part[a * (tile + 1) + b];
    if (M != mistake::no_second_barrier) __syncthreads();
  }
}

template <mistake M>
__global__ void reverse_kernel(const float* x, float* y) {
  TROUPE_SHARED(float, 32, part);
  const int t = static_cast<int>(threadIdx.x);
  if (M == mistake::ended_threads && t >= 16) return;
  part[t] = x[t];
  if (M == mistake::ended_threads)
    __syncthreads();
  else if (M != mistake::no_warp_barrier)
    __syncwarp();
  float v = part[31 - t];
  if (M == mistake::absent_lanes && t < 16) v = __shfl_down_sync(0xffffffffu, v, 8);
  y[t] = v;
}

}  // namespace

void double_all(cudaStream_t s, std::int64_t n, const float* x, float* y, mistake m) {
  launch(double_kernel, static_cast<unsigned>((n + 255) / 256), 256, 0, s, m == mistake::one_beyond ? n + 1 : n, x, y);
}
void sum_rows(cudaStream_t s, std::int64_t rows, std::int64_t n, const float* x, float* out, mistake m) {
  auto* kernel = m == mistake::no_barrier          ? sum_rows_kernel<mistake::no_barrier>
                 : m == mistake::one_beyond_shared ? sum_rows_kernel<mistake::one_beyond_shared>
                                                   : sum_rows_kernel<mistake::none>;
  launch(kernel, static_cast<unsigned>(rows), 256, 0, s, n, x, out);
}
void sum_rows_by_tree(cudaStream_t s, std::int64_t rows, std::int64_t n, const float* x, float* out) {
  launch(tree_kernel, static_cast<unsigned>(rows), 256, 256 * sizeof(float), s, n, x, out);
}
void transpose(cudaStream_t s, std::int64_t rows, std::int64_t columns, const float* x, float* y, mistake m) {
  auto* kernel = m == mistake::no_second_barrier ? transpose_kernel<mistake::no_second_barrier> : transpose_kernel<mistake::none>;
  launch(kernel, static_cast<unsigned>((rows + tile - 1) / tile), dim3(tile, tile), 0, s, rows, columns, x, y);
}
void reverse(cudaStream_t s, const float* x, float* y, mistake m) {
  auto* kernel = m == mistake::no_warp_barrier ? reverse_kernel<mistake::no_warp_barrier>
                 : m == mistake::ended_threads ? reverse_kernel<mistake::ended_threads>
                 : m == mistake::absent_lanes  ? reverse_kernel<mistake::absent_lanes>
                                               : reverse_kernel<mistake::none>;
  launch(kernel, 1, 32, 0, s, x, y);
}

}  // namespace troupe::vgpu
