#include "runtime/job/convolutions.hpp"

namespace troupe {

std::vector<conv_task> conv_tasks(const model_graph& g) {
  std::vector<conv_task> list;
  for (const auto& l : g.layers) {
    const auto* c = dynamic_cast<const convolving*>(l.maths.get());
    if (!c) continue;
    for (const auto p : conv_passes_all) {
      if (p != conv_pass::forward && !(l.in_train && l.wants_backward)) continue;
      if (p == conv_pass::backward_data && !l.grad_in_wanted[0]) continue;
      list.push_back({l.index, l.name, p, c->geometry(l.in[0])});
    }
  }
  return list;
}

}  // namespace troupe
