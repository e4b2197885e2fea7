#include "runtime/model/maths_steps.hpp"

namespace troupe {
namespace {

bool has_a_will(const graph_layer& l) {
  return l.maths->is_loss() || l.maths->is_metric() || l.maths->joint() || !l.carries.empty();
}

}  // namespace

std::shared_ptr<const layer> absorbed(const model_graph& g, const graph_layer& first, const graph_layer& last, const layer& maths,
                                      const graph_layer& next) {
  const tensor_ref between{static_cast<std::int32_t>(last.index), 0};
  if (last.out.size() != 1 || next.inputs != std::vector{between} || g.consumers(between).size() != 1) return nullptr;
  if (!last.maths || !next.maths || has_a_will(last) || has_a_will(next)) return nullptr;
  if (last.in_train != next.in_train || last.in_test != next.in_test || last.recompute != next.recompute) return nullptr;
  // If no gradient flows through `next`, none of its parameters may receive one either.
  if (last.wants_backward != next.wants_backward || (next.wants_backward && !next.grad_in_wanted[0])) return nullptr;
  return maths.absorb(*next.maths, first.in);
}

std::vector<maths_step> maths_steps(const model_graph& g, const std::vector<const graph_layer*>& layers, bool fuse) {
  std::vector<maths_step> steps;
  std::vector<bool> taken(layers.size(), false);
  for (std::size_t p = 0; p < layers.size(); ++p) {
    if (taken[p]) continue;
    maths_step s{{p}, layers[p]->maths};
    for (std::size_t n = p + 1; fuse && n < layers.size(); ++n) {
      if (taken[n]) continue;
      auto both = absorbed(g, *layers[s.first()], *layers[s.last()], *s.maths, *layers[n]);
      if (!both) continue;
      s.maths = std::move(both);
      s.at.push_back(n);
      taken[n] = true;
    }
    steps.push_back(std::move(s));
  }
  return steps;
}

std::string name_of(const maths_step& s, const std::vector<const graph_layer*>& layers) {
  std::string name;
  for (auto p : s.at) name += (name.empty() ? "" : "+") + layers[p]->name;
  return name;
}

}  // namespace troupe
