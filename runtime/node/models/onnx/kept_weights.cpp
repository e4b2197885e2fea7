#include "runtime/node/models/onnx/kept_weights.hpp"

#include <cstring>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

namespace troupe::onnx {

tensor kept_weights::keep(const shape& dims, std::vector<float> values) {
  const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  const auto hash = std::hash<std::string_view>()(bytes);
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto at = begin; at != end; ++at)
    if (at->second.dims() == dims && std::memcmp(at->second.raw(), bytes.data(), bytes.size()) == 0) return at->second;
  const auto kept = std::make_shared<const std::vector<float>>(std::move(values));
  return by_hash_.emplace(hash, tensor::adopt(kept, kept->data(), dims, dtype::f32))->second;
}

}  // namespace troupe::onnx
