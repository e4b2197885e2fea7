// Kernels for the tests of the virtual GPU: some right, some with a mistake.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace troupe::vgpu {

// A mistake in a kernel.
enum class mistake {
  none,
  no_barrier,         // between the partial sums of warps and their sum
  no_second_barrier,  // between the turns of a loop that reuses a shared tile
  no_warp_barrier,    // between the threads of a warp
  ended_threads,      // threads end before a barrier
  absent_lanes,       // a shuffle names lanes that do not come
  one_beyond,         // an element beyond the end of a block of memory
  one_beyond_shared,  // the same in a shared array
};

// y = 2 x, n elements.
void double_all(cudaStream_t s, std::int64_t n, const float* x, float* y, mistake m = mistake::none);
// out[r] = sum of row r of x [rows, n], in a fixed order: through shuffles, and through a tree in
// dynamic shared memory.
void sum_rows(cudaStream_t s, std::int64_t rows, std::int64_t n, const float* x, float* out, mistake m = mistake::none);
void sum_rows_by_tree(cudaStream_t s, std::int64_t rows, std::int64_t n, const float* x, float* out);
// y [columns, rows] = x [rows, columns]
void transpose(cudaStream_t s, std::int64_t rows, std::int64_t columns, const float* x, float* y, mistake m = mistake::none);
// y[i] = x[31 - i] for 32 elements, through shared memory of a warp.
void reverse(cudaStream_t s, const float* x, float* y, mistake m = mistake::none);

}  // namespace troupe::vgpu
