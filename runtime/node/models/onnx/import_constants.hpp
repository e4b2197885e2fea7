// Constants that nodes compute from constants.
// Errors: `refusal`, as in import_state.hpp.
#pragma once

#include "runtime/node/models/onnx/import_state.hpp"

namespace troupe::onnx {

inline constexpr std::int64_t most_folded = std::int64_t{1} << 28;  // values of a constant that is computed

// Input k, a constant.
const tensor_value& operand(const node_view& n, std::size_t k);
// A tensor of the type and extents, without values.
tensor_value like(const tensor_value& t, extents dims);

}  // namespace troupe::onnx
