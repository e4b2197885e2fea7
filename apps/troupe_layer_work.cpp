#include "apps/troupe_layer_work.hpp"

#include <algorithm>
#include <vector>

namespace troupe {

namespace {

std::vector<const graph_layer*> layers_named(const model_graph& g, const std::string& names) {
  std::vector<const graph_layer*> found;
  for (std::size_t begin = 0; begin <= names.size();) {
    const auto end = std::min(names.find('+', begin), names.size());
    const auto name = names.substr(begin, end - begin);
    const auto l = std::find_if(g.layers.begin(), g.layers.end(), [&](const graph_layer& one) { return one.name == name; });
    if (l != g.layers.end()) found.push_back(&*l);
    begin = end + 1;
  }
  return found;
}

double elements(const shapes& all) {
  double n = 0;
  for (const auto& s : all) n += static_cast<double>(s.count());
  return n;
}

}  // namespace

layer_work work_of(const prepared_job& j, const std::string& names) {
  layer_work w;
  const auto members = layers_named(j.graph, names);
  if (members.empty()) return w;
  const auto &head = *members.front(), &tail = *members.back();
  const bool back = std::any_of(members.begin(), members.end(), [](const graph_layer* l) { return l->wants_backward; });
  double params = 0, grad_in = 0;
  for (std::size_t i = 0; i < head.in.size(); ++i)
    if (i < head.grad_in_wanted.size() && head.grad_in_wanted[i]) grad_in += static_cast<double>(head.in[i].count());
  for (const auto* l : members) {
    for (const auto p : l->params) params += static_cast<double>(j.graph.params[p].spec.dims.count());
    const double flops = l->maths->flops(l->in);
    w.forward_flops += flops;
    if (back) w.backward_flops += flops * ((l != &head || grad_in > 0 ? 1 : 0) + (l->params.empty() ? 0 : 1));
  }
  const double size = static_cast<double>(size_of(j.spec.type())),
               of_params = params * static_cast<double>(size_of(j.spec.parameter_type()));
  w.forward_bytes = (elements(head.in) + elements(tail.out)) * size + of_params;
  if (back) {
    double activations = elements(tail.out) + grad_in;
    if (head.maths->backward_needs(head.in).inputs) activations += elements(head.in);
    if (tail.maths->backward_needs(tail.in).outputs) activations += elements(tail.out);
    w.backward_bytes =
        activations * size + of_params * (grad_in > 0 ? 2 : 1);  // gradients of the parameters and, for grad_in, the parameters
  }
  const double packets = j.plan.packets;
  w.forward_flops *= packets, w.backward_flops *= packets;
  w.forward_bytes *= packets, w.backward_bytes *= packets;
  return w;
}

}  // namespace troupe
