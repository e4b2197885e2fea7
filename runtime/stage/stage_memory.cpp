// When a stage releases a packet's tensors, and which it recomputes (recompute = true; Chen, Xu,
// Zhang and Guestrin 2016, section 4).
//
//   forward    Before a layer runs, the stage releases those of its inputs that no later layer
//              reads. The layer has its own handles; if these are the last ones, a layer that
//              can work in place does. An output that is sent is released with the last message
//              that carries it.
//   backward   A gradient is moved from producer to consumer, never copied, so layers can work in
//              place.
//   kept       The tensors of backward_needs(). Recomputed layers keep nothing; the inputs at the
//              start of a run of them are kept.
//
// Working in place, releasing and recomputing never change the bits. Memory is reused only if no
// other handle exists (tensor::reclaim), so another handle, on any thread, only costs memory.
#include <algorithm>

#include "runtime/stage/stage_maths.hpp"

namespace troupe {

// Called after `step` has gathered its inputs.
void stage_maths::let_go_read(packet_work& w, const maths_step& step) const {
  const auto& last = layout_->last_reads(w.h.phase, step);
  for (const auto& [p, o] : last.outputs)
    if (p != step.last()) w.passes[p].out[o].let_go();
  for (auto n : last.needs) {
    w.wholes[n].let_go();
    for (auto e : layout_->needs()[n].edges) w.inputs[e].let_go();
  }
}

// Called after the forward of `step`.
void stage_maths::let_go_done(packet_work& w, const maths_step& step) const {
  auto& pass = w.passes[step.first()];
  pass.in.clear();
  for (const auto& [p, o] : layout_->last_reads(w.h.phase, step).outputs)
    if (p == step.last()) w.passes[p].out[o].let_go();  // no reader
  const auto& l = layout_->hosted(step.first());
  if (!w.training() || !l.wants_backward || l.recompute) forget(pass.kept);
}

void stage_maths::take_in_place(packet_work& w, const maths_step& step) const {
  if (!step.maths->in_place() || !layout_->last_reads(w.h.phase, step).input_0) return;
  if (w.training() && layout_->hosted(step.first()).wants_backward && layout_->wants_of(step).inputs) return;
  auto& x = w.passes[step.first()].in[0];
  auto& y = w.passes[step.last()].out[0];
  if (x.type() == y.type() && x.dims() == y.dims() && x.reclaim()) y = x;
}

// The tensor to send along an out-edge. The last message that carries an output takes the stage's
// handle.
tensor stage_maths::leaving(packet_work& w, std::size_t edge, const std::vector<bool>& sent) const {
  if (layout_->remade(edge)) return std::move(w.outgoing[edge]);
  const auto what = layout_->out_edge(edge).what;
  const auto p = static_cast<std::size_t>(layout_->position_of(what.layer));
  auto& value = w.passes[p].out[what.output];
  auto leaves = value;
  bool last = !(w.training() && layout_->held(p, what.output));
  for (std::size_t e = 0; e < sent.size(); ++e)
    if (e != edge && !sent[e] && layout_->out_edge(e).what == what && !layout_->remade(e) &&
        layout_->edge_used(layout_->out_edge(e), w.h))
      last = false;
  if (last) value.let_go();
  return leaves;
}

// Called after all outputs have been sent.
void stage_maths::let_go_sent(packet_work& w) const {
  for (std::size_t p = 0; p < w.passes.size(); ++p)
    for (std::size_t o = 0; o < w.passes[p].out.size(); ++o)
      if (layout_->leaves(w.h.phase, p, o) && !(w.training() && layout_->held(p, o))) w.passes[p].out[o].let_go();
}

void stage_maths::let_go_all(packet_work& w) {
  w.inputs.clear();
  w.wholes.clear();
  w.outgoing.clear();
  w.arriving.clear();
  for (auto& pass : w.passes) {
    pass.in.clear(), pass.out.clear(), pass.params.clear();
    pass.grad_out.clear(), pass.grad_in.clear(), pass.grad_params.clear();
    forget(pass.kept);
  }
}

// Recomputes the tensors that backward of `step` needs and forward has not kept.
void stage_maths::restore(packet_work& w, const maths_step& step, device& d) const {
  const auto p = step.first();
  if (layout_->recomputes(p)) return make_again(w, step, d);
  if (!layout_->wants_of(step).inputs) return;
  for (std::size_t i = 0; i < layout_->hosted(p).inputs.size(); ++i) {
    const int q = layout_->maker_of(p, i);
    if (q < 0 || !layout_->recomputes(static_cast<std::size_t>(q))) continue;
    make_again(w, layout_->step_at(q), d);
    w.passes[p].kept.inputs[i] = w.passes[static_cast<std::size_t>(q)].out[layout_->hosted(p).inputs[i].output];
  }
}

// Recomputes `step` and, first, the recomputed layers that it reads. Statistics and carried state
// were output by the packet's first forward and are not output again.
void stage_maths::make_again(packet_work& w, const maths_step& step, device& d) const {
  const auto p = step.first();
  const auto& l = layout_->hosted(p);
  auto& pass = w.passes[p];
  auto& out = w.passes[step.last()].out;
  if (std::exchange(pass.again, true)) return;
  for (std::size_t i = 0; i < l.inputs.size(); ++i)
    if (const int q = layout_->maker_of(p, i); q >= 0 && layout_->recomputes(static_cast<std::size_t>(q)))
      make_again(w, layout_->step_at(q), d);
  gather(w, p);
  for (auto& t : out) t.let_go();
  auto c = context_of(w, p, d);
  c.stats_out = nullptr;
  if (w.continues_sequences && !l.carries.empty() && !pass.carried_in.empty()) c.carried_in = &pass.carried_in;
  forget(pass.kept);
  const tensors joined = step.at.size() > 1 ? of_all(w, step, &layer_pass::params) : tensors{};
  step.maths->forward(c, *pass.plans[0], pass.in, step.at.size() > 1 ? joined : pass.params, out, pass.kept);
  if (layout_->wants_of(step).inputs) pass.kept.inputs = pass.in;
  if (layout_->wants_of(step).outputs) pass.kept.outputs = out;
  pass.in.clear();
}

}  // namespace troupe
