// Forward and backward of a packet through the hosted layers.
#include <algorithm>
#include <stdexcept>

#include "ops/device.hpp"
#include "ops/reader_sum.hpp"
#include "runtime/stage/stage_maths.hpp"
#include "runtime/stage/wire_cast.hpp"

namespace troupe {

void stage_maths::gather(packet_work& w, std::size_t position) const {
  const auto& l = layout_->hosted(position);
  auto& in = w.passes[position].in;
  in.assign(l.inputs.size(), tensor{});
  for (std::size_t i = 0; i < l.inputs.size(); ++i) {
    const int p = l.inputs[i].layer == from_data ? -1 : layout_->position_of(l.inputs[i].layer);
    if (p >= 0) {
      in[i] = w.passes[static_cast<std::size_t>(p)].out[l.inputs[i].output];
      continue;
    }
    in[i] = w.wholes[static_cast<std::size_t>(layout_->need_at(position, i))];
  }
}

context stage_maths::context_of(packet_work& w, std::size_t position, device& d) const {
  const auto& h = w.h;
  return {d,         static_cast<phase>(h.phase), seed_, layout_->hosted(position).index, h.step, w.first_example, h.packet,
          h.packets, &w.passes[position].stats};
}

void stage_maths::keep(packet_work& w, const maths_step& step) const {
  const auto& l = layout_->hosted(step.first());
  auto& pass = w.passes[step.first()];
  if (!w.training() || !l.wants_backward || l.recompute) return;
  const auto needs = layout_->wants_of(step);
  if (needs.inputs) pass.kept.inputs = pass.in;
  for (std::size_t i = 0; i < pass.kept.inputs.size(); ++i) {
    const int q = layout_->maker_of(step.first(), i);
    if (q >= 0 && layout_->recomputes(static_cast<std::size_t>(q))) pass.kept.inputs[i].let_go();
  }
  if (needs.outputs) pass.kept.outputs = w.passes[step.last()].out;
}

// Returns true if a layer of the step after the first has parameters.
static bool has_others(const packet_work& w, const maths_step& step) {
  return std::any_of(step.at.begin() + 1, step.at.end(), [&](auto p) { return !w.passes[p].grad_params.empty(); });
}

namespace {

bool counts(const graph_layer& l) { return l.maths->is_loss() || l.maths->is_metric(); }

// The first `count` of `all` examples.
tensor leading(const tensor& t, std::int64_t count, std::int64_t all) {
  if (t.dims().rank() == 0 || t.dims()[0] != all) return t;
  auto dims = t.dims();
  dims.set(0, count);
  return t.backed() ? t.slice(0, dims) : tensor::declare(dims, t.type());
}

// Copies `t` into a tensor of the dims of `like`; the examples beyond those of `t` are zero.
tensor filled_up(device& d, const tensor& t, const tensor& like) {
  if (t.dims() == like.dims()) return t;
  auto all = tensor::allocate(d, like.dims(), like.type());
  d.fill(0.0, all);
  d.copy_block({.rows = 1, .length = t.count()}, t, all);
  return all;
}

}  // namespace

// The number of examples passed to `l`. A loss or metric gets only the valid ones, not the padding
// of an evaluation's last packet; other layers process all.
std::int64_t stage_maths::examples_of(const packet_work& w, const graph_layer& l) const {
  const bool fewer = !w.training() && counts(l) && w.valid > 0 && w.valid < w.examples;
  return fewer ? w.valid : w.examples;
}

void stage_maths::report_scalar(packet_work& w, std::size_t position, device& d) const {
  w.scalars.emplace_back(layout_->hosted(position).name, 0.0);
  d.later(w.passes[position].out[0],
          [mine = w.shared_from_this(), i = w.scalars.size() - 1](double v) { mine->scalars[i].second = v; });
}

// The weight of the last scalar in a mean over several packets.
void stage_maths::weigh_scalar(packet_work& w, const graph_layer& l, const tensors& in, context& c) const {
  w.scalar_weights.push_back(static_cast<double>(examples_of(w, l)));
  const auto weight = l.maths->mean_weight(c, in);
  if (!weight) return;
  if (weight.count() != 1)
    throw std::runtime_error("mean_weight() of layer '" + l.name + "' returned a tensor of shape " + weight.dims().to_string() +
                             ". Return a scalar, or an empty tensor");
  c.dev.later(weight, [mine = w.shared_from_this(), i = w.scalar_weights.size() - 1](double v) { mine->scalar_weights[i] = v; });
}

void stage_maths::step_forward(packet_work& w, const maths_step& step, device& d) const {
  const auto at = step.first();
  const auto& l = layout_->hosted(at);
  auto& pass = w.passes[at];
  auto& out = w.passes[step.last()].out;
  gather(w, at);
  let_go_read(w, step);
  take_in_place(w, step);
  const auto examples = examples_of(w, l);
  tensors whole;  // outputs with all examples, as their readers expect; used if the layer computes fewer
  if (examples < w.examples) {
    whole = out;
    for (auto& x : pass.in) x = leading(x, examples, w.examples);
    for (auto& y : out) y = leading(y, examples, w.examples);
  }
  prepare(w, step, examples, d);
  const auto ph = w.h.phase;
  auto c = context_of(w, at, d);
  if (w.continues_sequences && !l.carries.empty()) {
    c.carried_in = pass.carried_in.empty() ? nullptr : &pass.carried_in;
    pass.carried_out.clear();
    c.carried_out = &pass.carried_out;
  }
  const bool several = has_others(w, step);
  const tensors joined = several ? of_all(w, step, &layer_pass::params) : tensors{};
  step.maths->forward(c, *pass.plans[ph], pass.in, several ? joined : pass.params, out, pass.kept);
  for (std::size_t o = 0; o < whole.size(); ++o) out[o] = filled_up(d, out[o], whole[o]);
  keep(w, step);
  if (counts(l)) {
    report_scalar(w, at, d);
    if (!w.training()) weigh_scalar(w, l, pass.in, c);
  }
  let_go_done(w, step);
}

void stage_maths::prepare(packet_work& w, const maths_step& step, std::int64_t examples, device& d) const {
  auto& pass = w.passes[step.first()];
  const auto ph = w.h.phase;
  if (pass.plans[ph] && pass.planned_examples[ph] == examples) return;
  shapes in;
  for (const auto& t : pass.in) in.push_back(t.dims());
  pass.plans[ph] = step.maths->prepare(d, in, static_cast<phase>(ph), type_);
  pass.planned_examples[ph] = examples;
}

// The tensors of all layers of a step, in layer order.
tensors stage_maths::of_all(const packet_work& w, const maths_step& step, tensors layer_pass::*which) {
  tensors all;
  all.reserve(8);
  for (auto p : step.at) all.insert(all.end(), (w.passes[p].*which).begin(), (w.passes[p].*which).end());
  return all;
}

namespace {

// Copies `count` features (axis 1) from index `from_at` in one tensor to index `to_at` in the
// other.
void copy_features(device& d, const tensor& from, std::int64_t from_at, tensor& to, std::int64_t to_at, std::int64_t count) {
  const auto inner = from.dims().count_from(2);
  d.copy_block({.rows = from.dims()[0],
                .length = count * inner,
                .from_offset = from_at * inner,
                .from_stride = from.dims()[1] * inner,
                .to_offset = to_at * inner,
                .to_stride = to.dims()[1] * inner},
               from, to);
}

}  // namespace

// The tensor that an in-edge has delivered, decompressed.
tensor stage_maths::arrived(const packet_work& w, std::size_t need, std::size_t edge, device& d) const {
  const auto& e = layout_->in_edge(edge);
  if (e.wire == wire_format::as_is) return w.inputs[edge];
  const auto& dims = w.wholes[need].dims();
  return from_wire(d, w.inputs[edge], e.wire, e.region == layout_->needs()[need].features ? dims : cut(dims, e.region),
                   w.wholes[need].type());
}

// Adds in the order of the edges, which is that of the producer's parts, so the sum does not depend
// on the order of arrival.
void stage_maths::add_inputs(packet_work& w, std::size_t need, device& d) const {
  bool first = true;
  for (auto e : layout_->needs()[need].edges) {
    if (!w.inputs[e]) continue;
    const auto in = arrived(w, need, e, d);
    first ? d.copy(in, w.wholes[need]) : d.axpy(1.0, in, w.wholes[need]);
    first = false;
  }
}

// Assembles the needs that arrived in pieces, or with more features than needed (from a loader).
void stage_maths::join_inputs(packet_work& w, device& d) const {
  for (std::size_t n = 0; n < layout_->needs().size(); ++n) {
    auto& whole = w.wholes[n];
    if (whole.backed() && whole.space() != d.space()) whole = brought(d, whole);
    if (!whole || whole.backed()) continue;
    whole.back(d);
    if (layout_->needs()[n].sum) add_inputs(w, n, d);
    const auto first = layout_->needs()[n].features.begin, count = whole.dims()[1];
    for (auto e : layout_->needs()[n].edges) {
      if (!w.inputs[e] || layout_->needs()[n].sum) continue;
      const auto region = layout_->in_edge(e).region;
      const auto begin = std::max(first, region.begin), end = region.whole() ? first + count : std::min(first + count, region.end);
      copy_features(d, arrived(w, n, e, d), begin - region.begin, whole, begin - first, end - begin);
    }
    for (auto e : layout_->needs()[n].edges) w.inputs[e].let_go();
  }
}

void stage_maths::cut_outputs(packet_work& w, device& d) const {
  for (std::size_t e = 0; e < w.outgoing.size(); ++e) {
    if (!w.outgoing[e]) continue;
    const auto& edge = layout_->out_edge(e);
    const auto& all = w.passes[static_cast<std::size_t>(layout_->position_of(edge.what.layer))].out[edge.what.output];
    auto piece = all;
    if (!layout_->cut_at(e).whole()) {
      piece = tensor::allocate(d, cut(all.dims(), layout_->cut_at(e)), all.type());
      copy_features(d, all, layout_->cut_at(e).begin, piece, 0, layout_->cut_at(e).count());
    }
    w.outgoing[e] = to_wire(d, piece, edge.wire);
  }
}

void stage_maths::run_forward(packet_work& w, device& d) const {
  join_inputs(w, d);
  for (const auto& step : layout_->steps()) {
    const auto& l = layout_->hosted(step.first());
    if (w.training() ? l.in_train : l.in_test) step_forward(w, step, d);
  }
  cut_outputs(w, d);
}

// Joins the gradient from the parts of one consumer. Features without a gradient are zero.
tensor stage_maths::joined_gradient(packet_work& w, const std::vector<std::size_t>& edges, std::size_t position, std::size_t output,
                                    device& d) const {
  tensor all;
  std::int64_t covered = 0;
  for (auto e : edges)
    if (w.arriving[e]) covered += layout_->cut_at(e).count();
  if (covered == 0) return all;
  const auto& like = w.passes[position].out[output];
  const auto& dims = like.dims();
  all = tensor::allocate(d, dims, like.type());
  if (covered < dims[1]) d.fill(0.0, all);
  for (auto e : edges)
    if (w.arriving[e]) {
      copy_features(d, w.arriving[e], 0, all, layout_->cut_at(e).begin, layout_->cut_at(e).count());
      w.arriving[e].let_go();
    }
  return all;
}

// The sum of a gradient's addends, each of which is moved out of its place.
tensor stage_maths::add_up(packet_work& w, const stage_layout::contributions& from, std::size_t position, std::size_t output,
                           device& d) const {
  reader_sum sum;
  for (const auto& c : from) {
    if (c.hosted) {
      reader_sum mine;
      for (auto port : c.ports) mine.add(d, std::move(w.passes[c.at].grad_in[port]));
      sum.add(d, mine.take());
    } else {
      sum.add(d, c.pieces.empty() ? std::move(w.arriving[c.at]) : joined_gradient(w, c.pieces, position, output, d));
    }
  }
  return sum.take();
}

void stage_maths::fill_grad_out(packet_work& w, std::size_t position, device& d) const {
  const auto& l = layout_->hosted(position);
  auto& pass = w.passes[position];
  for (std::size_t o = 0; o < l.out.size(); ++o) {
    auto g = add_up(w, layout_->gradient_at(position, o), position, o, d);
    if (!g && (o == 0 || !l.maths->takes_absent_gradients())) {
      g = tensor::allocate(d, pass.out[o].dims(), pass.out[o].type());
      d.fill(o == 0 ? l.loss_weight : 0.0, g);
    }
    pass.grad_out[o] = g;
  }
}

void stage_maths::step_backward(packet_work& w, const maths_step& step, device& d) const {
  auto& pass = w.passes[step.first()];
  auto& result = w.passes[step.last()];
  fill_grad_out(w, step.last(), d);
  restore(w, step, d);
  const bool alike = step.maths->in_place() && pass.grad_in[0] && pass.grad_in[0].dims() == result.grad_out[0].dims() &&
                     pass.grad_in[0].type() == result.grad_out[0].type();
  if (alike && reclaim(d, result.grad_out[0])) pass.grad_in[0] = result.grad_out[0];
  auto c = context_of(w, step.first(), d);
  if (!has_others(w, step)) {
    step.maths->backward(c, *pass.plans[0], pass.kept, pass.params, result.grad_out, pass.grad_in, pass.grad_params, false);
  } else {
    auto grads = of_all(w, step, &layer_pass::grad_params);
    step.maths->backward(c, *pass.plans[0], pass.kept, of_all(w, step, &layer_pass::params), result.grad_out, pass.grad_in, grads,
                         false);
    auto next = grads.begin();
    for (auto p : step.at)
      for (auto& g : w.passes[p].grad_params) g = std::move(*next++);
  }
  forget(pass.kept);
  for (auto& g : result.grad_out) g.let_go();
  for (auto& y : result.out) y.let_go();
  pass.again = false;
}

// Decompresses the gradients that arrived in a compressed form.
void stage_maths::unpack_arriving(packet_work& w, device& d) const {
  for (std::size_t e = 0; e < w.arriving.size(); ++e) {
    const auto& edge = layout_->out_edge(e);
    if (edge.wire == wire_format::as_is || !w.arriving[e]) continue;
    const auto& all = w.passes[static_cast<std::size_t>(layout_->position_of(edge.what.layer))].out[edge.what.output];
    w.arriving[e] = from_wire(d, w.arriving[e], edge.wire, cut(all.dims(), layout_->cut_at(e)), all.type());
  }
}

void stage_maths::run_backward(packet_work& w, device& d) const {
  unpack_arriving(w, d);
  for (auto step = layout_->steps().rbegin(); step != layout_->steps().rend(); ++step)
    if (layout_->hosted(step->first()).wants_backward && layout_->hosted(step->first()).in_train) step_backward(w, *step, d);
  hand_back(w, d);
}

void stage_maths::hand_back(packet_work& w, device& d) const {
  for (std::size_t n = 0; n < layout_->needs().size(); ++n) {
    tensor sum;
    for (auto e : layout_->needs()[n].edges) {
      if (!w.inputs[e] || !layout_->in_edge(e).grad_back) continue;
      if (!sum) sum = add_up(w, layout_->needs()[n].gradient, 0, 0, d);
      const auto region = layout_->in_edge(e).region;
      auto piece = sum;
      if (!(region == layout_->needs()[n].features)) {
        piece = tensor::allocate(d, cut(sum.dims(), region), sum.type());
        copy_features(d, sum, region.begin - layout_->needs()[n].features.begin, piece, 0, region.count());
      }
      w.inputs[e] = to_wire(d, piece, layout_->in_edge(e).wire);
    }
  }
}

void stage_maths::declare(packet_work& w) const {
  for (std::size_t p = 0; p < w.passes.size(); ++p) {
    const auto& l = layout_->hosted(p);
    auto& pass = w.passes[p];
    pass.out.clear();
    for (std::size_t o = 0; o < l.out.size(); ++o)
      pass.out.push_back(tensor::declare(layout_->sized(l.out[o], w.examples), output_type(*l.maths, o, type_)));
    pass.grad_in.assign(l.in.size(), tensor{});
    pass.grad_out.assign(l.out.size(), tensor{});
    pass.grad_params.assign(l.params.size(), tensor{});
    pass.stats.clear();
    pass.gradient_of = 1;
    pass.again = false;
    if (!w.training() || !l.wants_backward) continue;
    for (auto q : l.params)
      if (const auto& spec = layout_->graph().params[q].spec; !spec.trainable)
        pass.stats.push_back(tensor::declare(spec.dims, wide_of(type_)));
    for (std::size_t i = 0; i < l.in.size(); ++i)
      if (l.grad_in_wanted[i])
        pass.grad_in[i] = tensor::declare(layout_->sized(l.in[i], w.examples), layout_->graph().type_of(l.inputs[i], type_));
    for (std::size_t i = 0; i < l.params.size(); ++i) {
      const auto& spec = layout_->graph().params[l.params[i]].spec;
      if (!spec.trainable) continue;
      pass.grad_params[i] = tensor::declare(layout_->part_at(p) ? layout_->part_at(p)->params[i] : spec.dims, wide_of(type_));
    }
  }
  w.wholes.assign(layout_->needs().size(), tensor{});
  for (std::size_t n = 0; n < layout_->needs().size(); ++n) {
    const tensor* only = nullptr;
    std::size_t came = 0;
    for (auto e : layout_->needs()[n].edges) {
      if (!w.inputs[e]) continue;
      ++came;
      const bool as_it_is =
          layout_->in_edge(e).region == layout_->needs()[n].features && layout_->in_edge(e).wire == wire_format::as_is;
      only = as_it_is ? &w.inputs[e] : nullptr;
    }
    if (came == 0) continue;
    const auto type = layout_->graph().type_of(layout_->needs()[n].what, type_);
    w.wholes[n] = came == 1 && only ? *only : tensor::declare(layout_->sized(layout_->needs()[n].dims, w.examples), type);
  }
  w.outgoing.assign(layout_->self().out_edges.size(), tensor{});
  for (std::size_t e = 0; e < layout_->self().out_edges.size(); ++e)
    if (layout_->remade(e) && layout_->edge_used(layout_->out_edge(e), w.h)) {
      const auto& all = w.passes[static_cast<std::size_t>(layout_->position_of(layout_->out_edge(e).what.layer))]
                            .out[layout_->out_edge(e).what.output];
      w.outgoing[e] = declare_for_wire(cut(all.dims(), layout_->cut_at(e)), all.type(), layout_->out_edge(e).wire);
    }
}

}  // namespace troupe
