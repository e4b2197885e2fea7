// CPU kernels, baseline. kernels.hpp states what this file may include, ops/CMakeLists.txt its
// compiler flags.
#include "ops/cpu/kernels.hpp"

#define TROUPE_VECTOR_BYTES 16
#define TROUPE_TILE_ROWS 6

namespace troupe::cpu {

namespace {
#include "ops/cpu/table.inl"

constexpr kernel_set set{"baseline", make_table<float>(), make_table<double>(), make_half_table()};
}  // namespace

const kernel_set* kernels_baseline() { return &set; }

}  // namespace troupe::cpu
