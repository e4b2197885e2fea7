#include "runtime/plain/plain_loop.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <map>

#include "ops/reader_sum.hpp"
#include "ops/stream_by_rules.hpp"
#include "ops/tree/packet_tree.hpp"
#include "runtime/loader/reading.hpp"
#include "runtime/messages/ids.hpp"
#include "runtime/model/maths_steps.hpp"
#include "runtime/plain/plain_weights.hpp"
#include "runtime/plan/carried.hpp"
#include "runtime/reduce/fold.hpp"

namespace troupe {
namespace {

using clock = std::chrono::steady_clock;

// Adds its lifetime, in seconds, to a number; null: does not measure.
class stopwatch {
 public:
  explicit stopwatch(double* into) : into_(into) {
    if (into_) begin_ = clock::now();
  }
  ~stopwatch() {
    if (into_) *into_ += seconds_of(clock::now() - begin_);
  }
  stopwatch(const stopwatch&) = delete;
  stopwatch& operator=(const stopwatch&) = delete;

 private:
  double* into_;
  clock::time_point begin_;
};

std::shared_ptr<device> loop_stream(std::shared_ptr<device> d, const maths_rules& r) {
  auto own = stream_by_rules(*d, r);
  return own ? own : d;
}

}  // namespace

struct plain_loop::impl {
  // State of one layer for the current packet; its plan is kept from packet to packet. Of layers
  // that are computed as one (model/maths_steps.hpp) the first one's `pass` is used, except for
  // `out`, which is the last one's.
  struct pass {
    tensors in, out, grad_in, grad_params, stats;
    saved kept;
    std::unique_ptr<plan> made;
    std::vector<tensors> carried;  // by packet
    // The inputs whose gradients add up to that of each output, in consumer order: {layer, input}.
    std::vector<std::vector<tensor_ref>> takers;
  };

  impl(std::shared_ptr<const prepared_job> job, std::shared_ptr<device> d, std::vector<std::uint32_t> by_layer);
  void load(std::uint32_t packet);
  tensors carried_in(const graph_layer& l, std::uint32_t packet);
  void forward(std::uint32_t packet, plain_times* times);
  void backward(std::uint32_t packet, plain_times* times);
  void step_forward(const maths_step& step, std::uint32_t packet, plain_times* times);
  void step_backward(const maths_step& step, std::uint32_t packet, plain_times* times);
  void declare_gradients(const graph_layer& l);
  tensor gradient_of(const pass& p, std::size_t output);
  void collect(std::uint32_t packet);
  context context_of(const graph_layer& l, std::uint32_t packet, tensors* stats) const;
  tensors params_of(const maths_step& step) const;
  tensor tensor_of(tensor_ref t) const {
    return t.layer == from_data ? (t.output == 0 ? data : label) : passes[static_cast<std::size_t>(t.layer)].out[t.output];
  }

  std::shared_ptr<const prepared_job> j;
  std::shared_ptr<device> dev;
  std::unique_ptr<sampler> order;
  plain_weights weights;
  std::uint64_t at = 0;
  std::vector<const graph_layer*> all;  // layers
  std::vector<maths_step> steps;
  std::vector<pass> passes;                 // by layer
  std::vector<packet_tree<tensors>> trees;  // by layer
  tensor data, label;
  std::map<std::uint32_t, std::pair<double, double>> losses;  // by layer: weighted sum, weight
};

plain_loop::impl::impl(std::shared_ptr<const prepared_job> job, std::shared_ptr<device> d, std::vector<std::uint32_t> by_layer)
    : j(std::move(job)), dev(loop_stream(std::move(d), j->spec.maths)), weights(j, dev, std::move(by_layer)), at(j->first_step) {
  assert(why_not(*j).empty());
  const auto& spec = j->spec;
  sampler_config c;
  c.seed = spec.seed;
  c.examples = j->data->size(split::train);
  c.batch = spec.data.batch;
  order = j->all->samplers.find(spec.data.sampler.kind)->make(spec.data.sampler.values, c);
  passes.resize(j->graph.layers.size());
  for (const auto& l : j->graph.layers) all.push_back(&l);
  steps = maths_steps(j->graph, all, j->plan.fuse_layers);
  for (const auto& l : j->graph.layers) {
    auto& p = passes[l.index];
    p.takers.resize(l.out.size());
    for (std::size_t o = 0; o < l.out.size(); ++o)
      for (const auto& t : j->graph.consumers({static_cast<std::int32_t>(l.index), static_cast<std::uint16_t>(o)})) {
        const auto& taker = j->graph.layers[static_cast<std::size_t>(t.layer)];
        if (taker.in_train && taker.grad_in_wanted[t.output]) p.takers[o].push_back(t);
      }
  }
}

void plain_loop::impl::load(std::uint32_t packet) {
  const auto n = j->graph.packet_examples;
  const auto indices = order->indices(at, packet * n, n);
  auto& host = dev->host();
  data = tensor::allocate(host, j->graph.data, j->graph.data_type(j->spec.type()));
  label = tensor::allocate(host, j->graph.label, j->graph.label_type(j->spec.type()));
  header h;
  h.step = at;
  h.packet = packet;
  h.phase = static_cast<std::uint8_t>(phase::train);
  check_indices(*j->data, split::train, indices, n);
  read_examples(*j->data, j->augment.get(), split::train, h, indices, host, data, label);
  check_ids(j->graph, split::train, indices, data, label);
  data = brought(*dev, data);
  label = brought(*dev, label);
}

// The state that the layer carries for this packet's sequence slots; empty: zeros.
tensors plain_loop::impl::carried_in(const graph_layer& l, std::uint32_t packet) {
  auto& mine = passes[l.index].carried;
  if (l.carries.empty()) return {};
  if (mine.empty())
    for (std::uint32_t k = 0; k < j->plan.packets; ++k) mine.push_back(carried_from(given(*j), l, k));
  return at % static_cast<std::uint64_t>(order->steps_per_epoch()) == 0 ? tensors{} : std::move(mine[packet]);
}

context plain_loop::impl::context_of(const graph_layer& l, std::uint32_t packet, tensors* s) const {
  const auto first = static_cast<std::uint64_t>(packet) * static_cast<std::uint64_t>(j->graph.packet_examples);
  return context{*dev, phase::train, j->spec.seed, l.index, at, first, packet, j->plan.packets, s};
}

tensors plain_loop::impl::params_of(const maths_step& step) const {
  tensors list;
  for (auto l : step.at)
    for (auto& t : weights.of(*all[l], at)) list.push_back(std::move(t));
  return list;
}

void plain_loop::impl::forward(std::uint32_t packet, plain_times* times) {
  for (const auto& step : steps)
    if (all[step.first()]->in_train) step_forward(step, packet, times);
}

void plain_loop::impl::step_forward(const maths_step& step, std::uint32_t packet, plain_times* times) {
  const auto& l = *all[step.first()];
  const auto& last = *all[step.last()];
  const stopwatch time(times ? &times->layers[l.index].forward : nullptr);
  auto& p = passes[l.index];
  auto& out = passes[last.index].out;
  p.in.clear();
  for (const auto& t : l.inputs) p.in.push_back(tensor_of(t));
  out.clear();
  for (std::size_t o = 0; o < last.out.size(); ++o)
    out.push_back(tensor::declare(last.out[o], output_type(*last.maths, o, j->spec.type())));
  if (!p.made) p.made = step.maths->prepare(*dev, l.in, phase::train, j->spec.type());
  p.stats.clear();
  auto c = context_of(l, packet, &p.stats);
  const auto before = carried_in(l, packet);
  tensors after;
  if (!before.empty()) c.carried_in = &before;
  if (!l.carries.empty()) c.carried_out = &after;
  step.maths->forward(c, *p.made, p.in, params_of(step), out, p.kept);
  if (!l.carries.empty()) p.carried[packet] = std::move(after);
  if (l.wants_backward) {
    const auto needs = step.maths->backward_needs(l.in);
    if (needs.inputs) p.kept.inputs = p.in;
    if (needs.outputs) p.kept.outputs = out;
  }
  if (!l.maths->is_loss()) return;
  const auto valid = static_cast<double>(j->graph.packet_examples);
  auto& sum = losses[l.index];
  sum.first += dev->scalar(p.out[0]) * valid;
  sum.second += valid;
}

// The gradient of an output, summed over its consumers. Gradients of several inputs of one layer
// are summed before they are added to those of other layers.
tensor plain_loop::impl::gradient_of(const pass& p, std::size_t output) {
  reader_sum sum;
  const auto& takers = p.takers[output];
  for (std::size_t k = 0; k < takers.size();) {
    reader_sum mine;
    const auto reader = takers[k].layer;
    for (; k < takers.size() && takers[k].layer == reader; ++k)
      mine.add(*dev, passes[static_cast<std::size_t>(reader)].grad_in[takers[k].output]);
    sum.add(*dev, mine.take());
  }
  return sum.take();
}

void plain_loop::impl::backward(std::uint32_t packet, plain_times* times) {
  for (auto step = steps.rbegin(); step != steps.rend(); ++step)
    if (const auto& l = *all[step->first()]; l.in_train && l.wants_backward) step_backward(*step, packet, times);
}

void plain_loop::impl::declare_gradients(const graph_layer& l) {
  auto& p = passes[l.index];
  p.grad_in.assign(l.in.size(), tensor{});
  for (std::size_t k = 0; k < l.in.size(); ++k)
    if (l.grad_in_wanted[k]) p.grad_in[k] = tensor::declare(l.in[k], j->graph.type_of(l.inputs[k], j->spec.type()));
  p.grad_params.assign(l.params.size(), tensor{});
  for (std::size_t k = 0; k < l.params.size(); ++k)
    if (weights.trained(l.params[k]))
      p.grad_params[k] = tensor::declare(j->graph.params[l.params[k]].spec.dims, j->spec.parameter_type());
}

void plain_loop::impl::step_backward(const maths_step& step, std::uint32_t packet, plain_times* times) {
  const auto& l = *all[step.first()];
  const stopwatch time(times ? &times->layers[l.index].backward : nullptr);
  auto& p = passes[l.index];
  const auto& last = passes[all[step.last()]->index];
  tensors grad_out, grads;
  for (std::size_t o = 0; o < last.out.size(); ++o) {
    auto g = gradient_of(last, o);
    if (!g && (o == 0 || !l.maths->takes_absent_gradients())) {
      g = tensor::allocate(*dev, last.out[o].dims(), last.out[o].type());
      dev->fill(o == 0 ? l.loss_weight : 0.0, g);
    }
    grad_out.push_back(std::move(g));
  }
  for (auto q : step.at) {
    declare_gradients(*all[q]);
    for (auto& g : passes[q].grad_params) grads.push_back(std::move(g));
  }
  auto c = context_of(l, packet, nullptr);
  step.maths->backward(c, *p.made, p.kept, params_of(step), grad_out, p.grad_in, grads, false);
  auto next = grads.begin();
  for (auto q : step.at)
    for (auto& g : passes[q].grad_params) g = std::move(*next++);
  p.kept = {};
}

// Adds the gradients of one packet to the fixed tree. The tree owns its tensors, so sums are in
// place.
void plain_loop::impl::collect(std::uint32_t packet) {
  if (trees.empty()) trees.assign(passes.size(), packet_tree<tensors>(j->plan.packets));
  for (const auto& l : j->graph.layers) {
    auto& p = passes[l.index];
    if (l.params.empty() || p.grad_params.empty()) continue;
    for (std::size_t k = 0; k < l.params.size(); ++k)
      if (const auto& spec = j->graph.params[l.params[k]].spec; !spec.trainable)
        p.grad_params[k] = tensor::declare(spec.dims, j->spec.parameter_type());
    weigh_statistics(*dev, j->graph, l, p.stats, packet, j->plan.packets, p.grad_params);
    trees[l.index].add({packet, 1}, std::move(p.grad_params), {}, [this](tensors a, const tensors& b) {
      for (std::size_t i = 0; i < a.size(); ++i)
        if (a[i]) dev->apply(binary::add, a[i], b[i], a[i]);
      return a;
    });
    p.grad_params.clear();
  }
}

diagnostics plain_loop::why_not(const prepared_job& j) {
  diagnostics list;
  for (const auto& l : j.graph.layers)
    if (l.in_train && l.maths->joint() && j.plan.packets > 1)
      list.push_back({l.spec->at, "a plain loop computes one packet after another, but the " + std::to_string(j.plan.packets) +
                                      " packets of layer '" + l.name + "' are computed together: use --set pipeline.packets=1"});
  return list;
}

plain_loop::plain_loop(std::shared_ptr<const prepared_job> j, std::shared_ptr<device> d, std::vector<std::uint32_t> delays)
    : impl_(std::make_unique<impl>(std::move(j), std::move(d), std::move(delays))) {}
plain_loop::~plain_loop() = default;

double plain_loop::step(plain_times* times) {
  auto& me = *impl_;
  if (times) *times = plain_times{std::vector<plain_times::row>(me.passes.size()), 0, 0, 0};
  me.losses.clear();
  me.weights.keep_version(me.at);
  for (std::uint32_t packet = 0; packet < me.j->plan.packets; ++packet) {
    {
      const stopwatch time(times ? &times->load : nullptr);
      me.load(packet);
    }
    me.forward(packet, times);
    me.backward(packet, times);
    const stopwatch time(times ? &times->sum : nullptr);
    me.collect(packet);
  }
  {
    const stopwatch time(times ? &times->update : nullptr);
    me.weights.update(me.trees, me.at);
    me.trees.clear();
  }
  ++me.at;
  double loss = 0;
  for (const auto& [layer, sum] : me.losses) loss += me.j->graph.layers[layer].loss_weight * sum.first / sum.second;
  return loss;
}

std::string plain_loop::name_of(std::uint32_t layer) const {
  for (const auto& step : impl_->steps)
    if (impl_->all[step.first()]->index == layer) return troupe::name_of(step, impl_->all);
  return {};
}

std::uint64_t plain_loop::steps() const { return impl_->at; }

std::vector<std::pair<std::string, tensor>> plain_loop::weights() const { return impl_->weights.named(); }

}  // namespace troupe
