// CPU kernels, x86-64-v3. See kernels.hpp for what this file may include, and ops/CMakeLists.txt
// for its flags.
#include "ops/cpu/kernels.hpp"

#ifdef __AVX2__

#include <immintrin.h>

#define TROUPE_VECTOR_BYTES 32
#define TROUPE_TILE_ROWS 6

namespace troupe::cpu {

namespace {
#include "ops/cpu/table.inl"

constexpr kernel_set set{"x86-64-v3", make_table<float>(), make_table<double>(), make_half_table()};
}  // namespace

const kernel_set* kernels_v3() { return __builtin_cpu_supports("x86-64-v3") ? &set : nullptr; }

}  // namespace troupe::cpu

#else  // the compiler was not asked for it: another processor family

namespace troupe::cpu {
const kernel_set* kernels_v3() { return nullptr; }
}  // namespace troupe::cpu

#endif
