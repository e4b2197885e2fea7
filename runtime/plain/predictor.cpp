#include "runtime/plain/predictor.hpp"

#include <algorithm>
#include <numeric>

#include "ops/converted.hpp"
#include "ops/device.hpp"
#include "ops/stream_by_rules.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/job/job_data.hpp"
#include "runtime/loader/reading.hpp"

namespace troupe {
namespace {

expected<prediction> named(const model_graph& g, const std::string& layer) {
  const auto at = std::find_if(g.layers.begin(), g.layers.end(), [&](const graph_layer& l) { return l.name == layer; });
  if (at == g.layers.end()) {
    std::vector<std::string> names;
    for (const auto& l : g.layers) names.push_back(l.name);
    return unexpected(error("there is no layer " + in_quotes(layer) + did_you_mean(layer, names)));
  }
  if (!at->in_test) return unexpected(error("layer '" + layer + "' runs in training only"));
  if (at->maths->is_loss() || at->maths->is_metric())
    return unexpected(error("layer '" + layer + "' is a loss or metric: its output is one number for all examples"));
  return prediction{{static_cast<std::int32_t>(at->index), 0}, answer::values};
}

}  // namespace

struct predictor::layer_state {
  tensors params, out;
  std::unique_ptr<plan> made;
  std::uint32_t readers = 0, left = 0;  // steps that read its outputs; those of this batch that have yet to
};

expected<std::unique_ptr<predictor>, diagnostic> predictor::make(std::shared_ptr<const prepared_job> j, std::shared_ptr<device> d,
                                                                 const std::string& layer, std::int64_t batch) {
  auto chosen = layer.empty() ? prediction_of(j->graph) : named(j->graph, layer);
  if (!chosen)
    return unexpected(diagnostic{j->spec.at, chosen.error().text + (layer.empty() ? ": name a layer with --layer" : "")});
  const auto& p = *chosen;
  std::unique_ptr<predictor> made(new predictor(std::move(j), std::move(d), p.what, p.meaning, batch));
  for (const auto* l : made->needed_)
    if (std::any_of(l->inputs.begin(), l->inputs.end(), from_label))
      return unexpected(diagnostic{l->spec->at, "layer '" + l->name + "' reads the label, which inputs without labels lack"});
  return made;
}

predictor::predictor(std::shared_ptr<const prepared_job> j, std::shared_ptr<device> d, tensor_ref what, answer meaning,
                     std::int64_t batch)
    : job_(std::move(j)), dev_(std::move(d)), what_(what), meaning_(meaning), batch_(batch > 0 ? batch : eval_examples(*job_)) {
  if (auto own = stream_by_rules(*dev_, job_->spec.maths)) dev_ = std::move(own);
  state_.resize(job_->graph.layers.size());
  find_steps();
  dev_->begin_task();
  const auto weights = initial_weights(*job_, *dev_);
  for (std::size_t i = 0; i < weights.size(); ++i) state_[job_->graph.params[i].layer].params.push_back(weights[i].second);
  dev_->finish_task();
  const auto& l = job_->graph.layers[static_cast<std::size_t>(what_.layer)];
  const auto each = l.out[what_.output].count() / job_->graph.packet_examples;
  if (meaning_ == answer::softmax) positions_ = job_->graph.label.count() / job_->graph.packet_examples;
  width_ = each / positions_;
}
predictor::~predictor() = default;

std::int64_t predictor::classes() const {
  if (meaning_ == answer::values) return 0;
  return width_ == 1 && meaning_ != answer::softmax ? 2 : width_;
}

// The layers that the output depends on.
void predictor::find_steps() {
  const auto& all = job_->graph.layers;
  std::vector<bool> wanted(all.size());
  wanted[static_cast<std::size_t>(what_.layer)] = true;
  for (std::size_t i = all.size(); i-- > 0;)
    if (wanted[i])
      for (const auto& t : all[i].inputs)
        if (t.layer >= 0) wanted[static_cast<std::size_t>(t.layer)] = true;
  for (const auto& l : all)
    if (wanted[l.index]) needed_.push_back(&l);
  steps_ = maths_steps(job_->graph, needed_, job_->plan.fuse_layers);
  for (const auto& step : steps_)
    for (const auto& t : needed_[step.first()]->inputs)
      if (t.layer >= 0) ++state_[static_cast<std::size_t>(t.layer)].readers;
  ++state_[static_cast<std::size_t>(what_.layer)].readers;
}

// The shape of a tensor of one batch, given that of one training packet.
shape predictor::sized(const shape& s) const {
  shape r = s;
  if (r.rank() > 0 && r[0] == job_->graph.packet_examples) r.set(0, batch_);
  return r;
}

void predictor::step_forward(const maths_step& step, const tensor& data) {
  const auto& first = *needed_[step.first()];
  const auto& last = *needed_[step.last()];
  auto& state = state_[first.index];
  tensors in, out, params;
  shapes dims;
  for (const auto& t : first.inputs) {
    in.push_back(t.layer == from_data ? data : state_[static_cast<std::size_t>(t.layer)].out[t.output]);
    dims.push_back(in.back().dims());
  }
  const auto type = job_->spec.type();
  for (std::size_t o = 0; o < last.out.size(); ++o)
    out.push_back(tensor::declare(sized(last.out[o]), output_type(*last.maths, o, type)));
  for (auto k : step.at)
    for (const auto& p : state_[needed_[k]->index].params) params.push_back(p);
  if (!state.made) state.made = step.maths->prepare(*dev_, dims, phase::test, type);
  context c{*dev_, phase::test, job_->spec.seed, first.index, 0};
  saved kept;
  step.maths->forward(c, *state.made, in, params, out, kept);
  state_[last.index].out = std::move(out);
  for (const auto& t : first.inputs)
    if (t.layer >= 0 && --state_[static_cast<std::size_t>(t.layer)].left == 0)
      state_[static_cast<std::size_t>(t.layer)].out.clear();
}

tensor predictor::forward(const tensor& data) {
  for (auto& s : state_) s.left = s.readers;
  for (const auto& step : steps_) step_forward(step, data);
  auto& out = state_[static_cast<std::size_t>(what_.layer)].out;
  auto made = out[what_.output];
  out.clear();
  return made;
}

void predictor::compute(const float* examples, float* out) {
  dev_->begin_task();
  // The net only reads its input.
  const auto made = forward(brought(*dev_, tensor::borrow(const_cast<float*>(examples), sized(job_->graph.data), dtype::f32)));
  dev_->download(made, out);
  dev_->finish_task();
}

predictor::result predictor::run(const source& from, std::int64_t first) {
  const auto& g = job_->graph;
  const auto count = std::min(batch_, from.size(split::test) - first);
  std::vector<std::int64_t> indices(static_cast<std::size_t>(batch_), -1);
  std::iota(indices.begin(), indices.begin() + count, first);
  auto& host = dev_->host();
  dev_->begin_task();
  auto data = tensor::allocate(host, sized(g.data), g.data_type(job_->spec.type()));
  auto label = tensor::allocate(host, sized(g.label), from.targets() ? dtype::f64 : dtype::i32);
  header h;
  h.phase = static_cast<std::uint8_t>(phase::test);
  read_examples(from, job_->augment.get(), split::test, h, indices, host, data, label);
  check_ids(g, split::test, indices, data, label);
  const auto out = converted_to(*dev_, forward(brought(*dev_, data)), dtype::f64);
  result r;
  r.values.resize(static_cast<std::size_t>(out.count()));
  dev_->download(out, r.values.data());
  dev_->finish_task();
  r.values.resize(static_cast<std::size_t>(count * positions_ * width_));
  const auto labels = label.count() / batch_ * count;
  if (from.targets())
    r.targets.assign(label.data<double>(), label.data<double>() + labels);
  else
    r.labels.assign(label.data<std::int32_t>(), label.data<std::int32_t>() + labels);
  return r;
}

}  // namespace troupe
