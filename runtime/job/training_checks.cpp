#include "runtime/job/training_checks.hpp"

#include <algorithm>

#include "runtime/base/wording.hpp"
#include "runtime/coordinator/rate_plateau.hpp"
#include "runtime/job/job_data.hpp"
#include "runtime/job/position.hpp"

namespace troupe {
namespace {

bool has_accuracy(const model_graph& g) {
  return std::any_of(g.layers.begin(), g.layers.end(),
                     [](const graph_layer& l) { return l.in_test && l.maths->is_metric() && l.maths->more_is_better(); });
}

// What a job waits for, as a key of its file.
struct wish {
  source_position at;
  std::string who;  // "[train.finish]: 'patience'"
  bool of_accuracy = false;
};

std::vector<wish> wishes_of(const prepared_job& j) {
  const auto& t = j.spec.train;
  const auto& f = t.finish;
  std::vector<wish> all;
  const auto finish = [&](const source_position& at, std::string who, const std::string& row, const options& given) {
    const auto* type = j.all->finishes.find(row);
    if (!type || !type->needs_evaluations) return;
    all.push_back({at, std::move(who), type->needs_accuracy && type->needs_accuracy(given)});
  };
  const auto stock = [&](const std::string& row, const options& given) {
    finish(position(t.key_at, "finish." + row, t.at), "[train.finish]: " + in_quotes(row), row, given);
  };
  if (f.target_accuracy) stock("target_accuracy", {});
  if (f.patience) stock("patience", {{{"measure", f.measure}}});
  if (f.custom) finish(f.custom->at, "[train.finish.custom]: " + in_quotes(f.custom->kind), f.custom->kind, f.custom->values);
  if (const auto& s = t.schedule; s.kind == rate_plateau::name)
    all.push_back({s.at, "[train.dynamics.schedule]: 'plateau'", s.values.text("measure") == "accuracy"});
  return all;
}

// The mean of a packet's loss is over its own labels: packets of which fewer labels count would
// have as much weight as others, unless the job says so.
void check_means(const prepared_job& j, diagnostics& wrong) {
  if (!j.data->ignores_labels() || j.plan.packets < 2) return;
  for (const auto& l : j.graph.layers) {
    const auto& values = l.spec->values;
    const bool labelled =
        std::any_of(l.inputs.begin(), l.inputs.end(), [](const tensor_ref& r) { return r.layer == from_data && r.output == 1; });
    if (!l.in_train || !l.maths->is_loss() || !labelled || !values.has("mean") || l.spec->key_at.count("mean") > 0) continue;
    if (values.text("mean") == "packet")
      wrong.push_back({l.spec->at, "layer " + in_quotes(l.name) +
                                       ": some training labels do not count, and the mean of a packet would be over its own: "
                                       "set mean = \"batch\" (over the labels of the step, as in PyTorch), or mean = \"packet\" "
                                       "if that is meant"});
  }
}

}  // namespace

diagnostics check_training(const prepared_job& j) {
  diagnostics wrong;
  if (!j.spec.trains) return wrong;
  for (const auto& l : j.graph.layers)
    if (l.in_train)
      if (const auto why = l.maths->untrainable(l.in, j.plan.packets); !why.empty())
        wrong.push_back({l.spec->at, "layer " + in_quotes(l.name) + ": " + why});
  check_means(j, wrong);
  const bool evaluates = make_eval_sampler(j)->examples() > 0, accuracy = has_accuracy(j.graph);
  for (const auto& w : wishes_of(j)) {
    if (!evaluates)
      wrong.push_back({w.at, w.who + " needs evaluations, but source " + in_quotes(j.spec.data.source) +
                                 " has no test data: give it some, or set [data] validation, or [eval] split = \"train\""});
    else if (w.of_accuracy && !accuracy)
      wrong.push_back({w.at, w.who + " needs an accuracy, but no layer of the net reports one in tests: add a layer of type "
                                     "'accuracy', or compare losses (measure = \"loss\" of patience and 'plateau')"});
  }
  return wrong;
}

}  // namespace troupe
