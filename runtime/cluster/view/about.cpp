#include "runtime/cluster/view/about.hpp"

#include "runtime/data/source.hpp"
#include "runtime/job/amend.hpp"

namespace troupe {
namespace {

std::string input_name(const model_graph& g, tensor_ref t) {
  if (t.layer == from_data) return t.output == 0 ? "data" : "label";
  const auto& l = g.layers[static_cast<std::size_t>(t.layer)];
  return t.output == 0 ? l.name : l.name + "." + std::to_string(t.output);
}

std::vector<std::string> texts_of(const shapes& list) {
  std::vector<std::string> out;
  for (const auto& s : list) out.push_back(s.to_string());
  return out;
}

}  // namespace

std::vector<repl_mode> repl_modes(const mode_registry& r) {
  std::vector<repl_mode> list;
  for (const auto& name : r.names()) {
    list.push_back({name, {}});
    for (const auto& o : r.find(name)->specs) list.back().options.push_back(o.name);
  }
  return list;
}

repl_about about_job(const prepared_job& j) {
  repl_about a;
  a.modes = repl_modes(j.all->modes);
  a.mode = mode_text(j);
  a.workers = j.plan.ranges.size();
  a.batch = static_cast<std::uint64_t>(j.spec.data.batch);
  a.steps_per_epoch = j.steps_per_epoch;
  a.first_step = j.first_step;
  a.lr = j.spec.train.lr;
  a.decay = j.spec.train.decay;
  a.evaluates = j.data->size(j.spec.eval.on_training ? split::train : split::test) > 0;
  for (const auto& l : j.graph.layers) {
    repl_layer r;
    r.name = l.name;
    r.type = l.type;
    for (const auto& t : l.inputs) r.inputs.push_back(input_name(j.graph, t));
    r.in = texts_of(l.in);
    r.out = texts_of(l.out);
    r.in_train = l.in_train;
    r.in_test = l.in_test;
    for (auto p : l.params) {
      const auto& param = j.graph.params[p];
      r.parameters.push_back({param.full_name, param.spec.dims.to_string(), param.spec.dims.count(), param.spec.lr_multiplier,
                              param.spec.decay_multiplier, param.spec.trainable});
    }
    a.layers.push_back(std::move(r));
  }
  return a;
}

}  // namespace troupe
