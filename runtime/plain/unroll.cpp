#include "runtime/plain/unroll.hpp"

#include <algorithm>
#include <memory>

namespace troupe {
namespace {

// Allocates its own memory: there is no device here, and a weights file is small.
tensor transpose(const tensor& w) {
  const auto rows = w.dims()[0], columns = w.dims()[1];
  auto values = std::make_shared<std::vector<float>>(static_cast<std::size_t>(w.count()));
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      (*values)[static_cast<std::size_t>(j * rows + i)] = w.data<float>()[static_cast<std::size_t>(i * columns + j)];
  const void* data = values->data();
  return tensor::adopt(std::move(values), data, shape{columns, rows}, dtype::f32);
}

}  // namespace

expected<unrolled> unroll(const std::vector<std::pair<std::string, tensor>>& named) {
  const auto find = [&](const std::string& name) {
    const auto at = std::find_if(named.begin(), named.end(), [&](const auto& n) { return n.first == name; });
    return at == named.end() ? tensor() : at->second;
  };
  const std::string mark = ".visible_bias";
  unrolled up;
  std::vector<std::pair<std::string, tensor>> down;
  for (const auto& [name, visible] : named) {
    if (name.size() <= mark.size() || name.compare(name.size() - mark.size(), mark.size(), mark) != 0) continue;
    const auto machine = name.substr(0, name.size() - mark.size());
    const auto w = find(machine + ".weight"), c = find(machine + ".bias");
    if (!w || !c) return unexpected(error("'" + machine + "' has a visible_bias, but no " + (w ? "bias" : "weight")));
    if (w.dims().rank() != 2 || !(visible.dims() == shape{w.dims()[1]}) || !(c.dims() == shape{w.dims()[0]}))
      return unexpected(error("'" + machine + "' is not a Boltzmann machine: weight " + w.dims().to_string() + ", bias " +
                              c.dims().to_string() + ", visible_bias " + visible.dims().to_string()));
    if (w.type() != dtype::f32 || c.type() != dtype::f32 || visible.type() != dtype::f32)
      return unexpected(error("'" + machine + "' is not in f32"));
    if (!up.layers.empty() && w.dims()[1] != up.named.back().second.count())
      return unexpected(error("'" + machine + "' takes " + std::to_string(w.dims()[1]) + " values, but '" + up.layers.back() +
                              "' before it outputs " + std::to_string(up.named.back().second.count())));
    up.layers.push_back(machine);
    up.named.emplace_back(machine + ".weight", w);
    up.named.emplace_back(machine + ".bias", c);
    down.insert(down.begin(), {{machine + "_back.weight", transpose(w)}, {machine + "_back.bias", visible}});
  }
  if (up.layers.empty()) return unexpected(error("there is no Boltzmann machine: no tensor is called NAME.visible_bias"));
  up.named.insert(up.named.end(), down.begin(), down.end());
  for (auto i = up.layers.size(); i-- > 0;) up.layers.push_back(up.layers[i] + "_back");
  return up;
}

}  // namespace troupe
