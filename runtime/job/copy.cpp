#include "runtime/job/copy.hpp"

namespace troupe {

std::shared_ptr<prepared_job> copy_of(const prepared_job& j) {
  auto copy = std::make_shared<prepared_job>(j);
  const auto* first = j.spec.layers.data();
  for (auto& l : copy->graph.layers)
    if (l.spec && l.spec >= first && l.spec < first + j.spec.layers.size())
      l.spec = &copy->spec.layers[static_cast<std::size_t>(l.spec - first)];
  return copy;
}

}  // namespace troupe
