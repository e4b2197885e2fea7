#include "runtime/job/coarse.hpp"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

#include "runtime/base/invariant.hpp"
#include "runtime/job/copy.hpp"
#include "runtime/job/job_mode.hpp"

namespace troupe {
namespace {

// A layer with elements and flops but without maths. Hosts of a coarse model never call its forward
// or backward.
class bucket final : public layer {
 public:
  bucket(std::int64_t elements, double flops, bool last) : elements_(elements), flops_(flops), last_(last) {}

  shapes infer(const shapes& in) const override { return {last_ ? shape{} : shape{in[0][0], 1}}; }
  signatures supported() const override { return {{{distribution::split_0}, {distribution::broadcast}, {distribution::split_0}}}; }
  param_specs params(const shapes&) const override {
    param_spec p;
    p.name = "weight";
    p.dims = {elements_};
    return elements_ > 0 ? param_specs{p} : param_specs{};
  }
  bool is_loss() const override { return last_; }
  bool differentiable(std::size_t input) const override { return input == 0; }
  double flops(const shapes&) const override { return flops_; }
  void forward(context&, troupe::plan&, const tensors&, const tensors&, tensors&, saved&) const override {
    assert(!"a bucket does not compute");
  }
  void backward(context&, troupe::plan&, const saved&, const tensors&, const tensors&, tensors&, tensors&, bool) const override {
    assert(!"a bucket does not compute");
  }

 private:
  std::int64_t elements_;
  double flops_;
  bool last_;
};

// A source with the shapes and size of another one but without data and without a test split.
class counted final : public source {
 public:
  explicit counted(std::shared_ptr<const source> of) : of_(std::move(of)) {}
  shape example() const override { return of_->example(); }
  std::int64_t classes() const override { return of_->classes(); }
  shape label() const override { return of_->label(); }
  bool targets() const override { return of_->targets(); }
  bool ids() const override { return of_->ids(); }
  bool ignores_labels() const override { return of_->ignores_labels(); }
  std::int64_t vocabulary() const override { return of_->vocabulary(); }
  channel_order picture_order() const override { return of_->picture_order(); }
  std::int64_t size(split s) const override { return s == split::train ? of_->size(s) : 0; }
  void read(split, const std::vector<std::int64_t>&, tensor&, tensor&) const override {
    invariant(false, "this source has no data");
  }

 private:
  std::shared_ptr<const source> of_;
};

// A run of trainable elements in their flat list, with the flops that belong to them.
struct run_of_work {
  std::int64_t elements = 0;
  double flops = 0;
};

std::vector<run_of_work> work_of(const model_graph& g) {
  std::vector<run_of_work> runs(1);  // the first: work of the layers before the first parameter
  for (const auto& l : g.layers) {
    if (!l.in_train) continue;
    std::int64_t n = 0;
    for (auto p : l.params) n += g.params[p].spec.trainable ? g.params[p].spec.dims.count() : 0;
    if (n > 0) runs.push_back({n, 0});
    runs.back().flops += l.maths->flops(l.in);
  }
  if (runs.size() > 1) {
    runs[1].flops += runs[0].flops;
    runs.erase(runs.begin());
  }
  return runs;
}

std::vector<run_of_work> cut(const std::vector<run_of_work>& runs, std::uint32_t buckets) {
  std::int64_t total = 0;
  for (const auto& r : runs) total += r.elements;
  std::vector<run_of_work> out(buckets);
  std::int64_t before = 0;
  for (const auto& r : runs) {
    std::int64_t done = 0;
    while (done < r.elements) {
      auto k = static_cast<std::uint32_t>((before + done) * buckets / total);
      auto end = total * (k + 1) / buckets;  // of bucket k
      if (end <= before + done) end = total * (++k + 1) / buckets;
      const auto n = std::min(end - before - done, r.elements - done);
      out[k].elements += n;
      out[k].flops += r.flops * static_cast<double>(n) / static_cast<double>(r.elements);
      done += n;
    }
    if (r.elements == 0) out[0].flops += r.flops;
    before += r.elements;
  }
  return out;
}

// Gives a job that is simulated without maths a source without data and a plan without a tester.
expected<std::shared_ptr<prepared_job>, diagnostics> without_data(std::shared_ptr<prepared_job> c,
                                                                  const std::vector<node_spec>& nodes) {
  plan_options options;
  options.own_stage = c->all->stages.types();
  options.lay_out_reducers = reducers_of(*c);
  options.placing = placing_of(*c);
  auto plan = make_plan(c->spec, c->graph, nodes, options);
  if (!plan) return unexpected(std::move(plan).error());
  c->plan = std::move(*plan);
  c->before.reset();
  c->continued = false;
  c->data = std::make_shared<counted>(c->data);
  c->spec.data.sampler = {"sequential", check_options({}, c->all->samplers.find("sequential")->specs), {}};
  return c;
}

// Returns the codec of the model's largest parameter. All buckets use it, because a bucket has
// parameters of several layers.
codec_spec codec_of_largest(const model_graph& g) {
  const auto smaller = [](const graph_param& a, const graph_param& b) { return a.spec.dims.count() < b.spec.dims.count(); };
  const auto most = std::max_element(g.params.begin(), g.params.end(), smaller);
  return most == g.params.end() ? codec_spec{} : most->codec;
}

}  // namespace

model_graph coarse_graph(const model_graph& g, std::uint32_t buckets) {
  std::int64_t total = 0;
  for (const auto& p : g.params) total += p.spec.trainable ? p.spec.dims.count() : 0;
  buckets = static_cast<std::uint32_t>(std::clamp<std::int64_t>(buckets, 1, std::max<std::int64_t>(total, 1)));
  const auto parts = cut(work_of(g), buckets);
  model_graph c;
  c.data = g.data;
  c.label = g.label;
  c.ids = g.ids;
  c.targets = g.targets;
  c.packet_examples = g.packet_examples;
  c.classes = g.classes;
  c.vocabulary = g.vocabulary;
  tensor_ref from{from_data, 0};
  shape before = g.data;
  for (std::uint32_t k = 0; k < buckets; ++k) {
    const bool last = k + 1 == buckets;
    graph_layer l;
    l.index = k;
    l.name = "bucket" + std::to_string(k);
    l.type = "bucket";
    l.maths = std::make_shared<bucket>(parts[k].elements, parts[k].flops, last);
    l.inputs = {from};
    l.in = {before};
    if (last) {
      l.inputs.push_back({from_data, 1});
      l.in.push_back(g.label);
      l.loss_weight = 1;
    }
    l.out = l.maths->infer(l.in);
    l.grad_in_wanted.assign(l.inputs.size(), false);
    l.grad_in_wanted[0] = k > 0;
    l.wants_backward = true;
    l.spec = g.layers.back().spec;
    for (auto& spec : l.maths->params(l.in)) {
      l.params.push_back(static_cast<std::uint32_t>(c.params.size()));
      c.params.push_back({k, 0, spec, l.name + "." + spec.name, c.parameter_count, codec_of_largest(g)});
      c.parameter_count += spec.dims.count();
    }
    before = l.out[0];
    from = {static_cast<std::int32_t>(k), 0};
    c.layers.push_back(std::move(l));
  }
  return c;
}

expected<std::shared_ptr<prepared_job>, diagnostics> make_coarse(const prepared_job& j, std::uint32_t buckets,
                                                                 const std::vector<node_spec>& nodes) {
  auto c = std::make_shared<prepared_job>();
  *c = j;
  c->spec.pipeline.fuse = "auto";
  c->graph = coarse_graph(j.graph, buckets);
  // Every layer of a graph points to its layer_spec; those of the coarse graph must point into this
  // copy of the specification.
  for (auto& l : c->graph.layers)
    if (!c->spec.layers.empty()) l.spec = &c->spec.layers.back();
  return without_data(std::move(c), nodes);
}

expected<std::shared_ptr<prepared_job>, diagnostics> make_counted(const prepared_job& j, const std::vector<node_spec>& nodes) {
  return without_data(copy_of(j), nodes);
}

}  // namespace troupe
