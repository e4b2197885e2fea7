// CPU kernels, x86-64-v4. kernels.hpp states what this file may include, ops/CMakeLists.txt its
// compiler flags.
#include "ops/cpu/kernels.hpp"

#ifdef __AVX512F__

#include <immintrin.h>

#define TROUPE_VECTOR_BYTES 64
#define TROUPE_TILE_ROWS 14

namespace troupe::cpu {

namespace {
#include "ops/cpu/table.inl"

constexpr kernel_set set{"x86-64-v4", make_table<float>(), make_table<double>(), make_half_table()};
}  // namespace

const kernel_set* kernels_v4() { return __builtin_cpu_supports("x86-64-v4") ? &set : nullptr; }

}  // namespace troupe::cpu

#else  // compiled without the flags for x86-64-v4

namespace troupe::cpu {
const kernel_set* kernels_v4() { return nullptr; }
}  // namespace troupe::cpu

#endif
