// When a stage lets go of a packet's tensors, and what it makes again (recompute = true; Chen, Xu, Zhang and Guestrin 2016, section 4).
//
//   forward    a layer's inputs are let go before it runs when it is their last reader here: it has handles of its own, and when they turn
//              out to be the only ones, a layer that can work in place does. What leaves is let go with the last message that it leaves in.
//   backward   a gradient is moved from whoever made it to whoever takes it, never copied, so that it too can be worked on in place.
//   kept       what backward_needs() asks for; of layers that are made again: nothing of their own, but the inputs that they begin from.
//
// In place or not, released or made again: the same bits. What is reused depends on handles alone (tensor::reclaim), and a handle that
// somebody else still has, on whatever thread, only costs memory.
#include <algorithm>

#include "runtime/pipeline/stage.hpp"

namespace troupe {

void stage::find_readers() {
  const auto& me = self();
  const auto count = me.layers.size();
  held_.resize(count);
  held_need_.assign(needs_.size(), false);
  for (std::size_t p = 0; p < count; ++p) {
    const auto wants = hosted(p).maths->backward_needs(hosted(p).in);
    wants_of_.push_back({wants.inputs, wants.outputs});
  }
  for (std::size_t p = 0; p < count; ++p) held_[p].assign(hosted(p).out.size(), false);
  for (std::size_t p = 0; p < count; ++p) {
    const auto& l = hosted(p);
    for (std::size_t i = 0; i < l.inputs.size() && l.in_train && l.recompute; ++i) {
      if (need_at_[p][i] >= 0) {
        held_need_[static_cast<std::size_t>(need_at_[p][i])] = true;
      } else if (const auto q = static_cast<std::size_t>(position_of(l.inputs[i].layer)); !recomputes(q)) {
        held_[q][l.inputs[i].output] = true;
      }
    }
  }
  for (const std::size_t ph : {0, 1}) {
    const auto runs = [&](std::size_t p) { return ph == 0 ? hosted(p).in_train : hosted(p).in_test; };
    auto& last = last_[ph];
    last.resize(count);
    leaves_[ph].resize(count);
    for (std::size_t p = 0; p < count; ++p) leaves_[ph][p].assign(hosted(p).out.size(), false);
    for (std::size_t e = 0; e < me.out_edges.size(); ++e)
      if (const auto& edge = out_edge(e); ph == 0 ? edge.in_train : edge.in_test)
        leaves_[ph][static_cast<std::size_t>(position_of(edge.what.layer))][edge.what.output] = true;
    std::vector<std::vector<std::size_t>> reader(count);  // the last one, of each output
    std::vector<int> need_reader(needs_.size(), -1);
    for (std::size_t p = 0; p < count; ++p) {
      const auto& l = hosted(p);
      reader[p].assign(l.out.size(), p);
      for (std::size_t i = 0; i < l.inputs.size() && runs(p); ++i) {
        if (need_at_[p][i] >= 0)
          need_reader[static_cast<std::size_t>(need_at_[p][i])] = static_cast<int>(p);
        else
          reader[static_cast<std::size_t>(position_of(l.inputs[i].layer))][l.inputs[i].output] = p;
      }
    }
    for (std::size_t p = 0; p < count; ++p)
      for (std::size_t o = 0; o < reader[p].size(); ++o)
        if (!leaves_[ph][p][o] && !(ph == 0 && held_[p][o])) last[reader[p][o]].outputs.emplace_back(p, o);
    for (std::size_t n = 0; n < needs_.size(); ++n)
      if (need_reader[n] >= 0 && !(ph == 0 && held_need_[n])) last[static_cast<std::size_t>(need_reader[n])].needs.push_back(n);
    for (std::size_t p = 0; p < count; ++p) {
      const auto& l = hosted(p);
      if (l.inputs.empty()) continue;
      const auto n = need_at_[p][0];
      const auto made =
          std::pair(static_cast<std::size_t>(std::max(0, position_of(l.inputs[0].layer))), std::size_t{l.inputs[0].output});
      const auto has = [](const auto& list, const auto& x) { return std::find(list.begin(), list.end(), x) != list.end(); };
      last[p].input_0 = n >= 0 ? has(last[p].needs, static_cast<std::size_t>(n)) : has(last[p].outputs, made);
    }
  }
}

// `position` has gathered its inputs.
void stage::let_go_read(slot& s, std::size_t position) const {
  const auto& last = last_[s.h.phase][position];
  for (const auto& [p, o] : last.outputs)
    if (p != position) s.passes[p].out[o].let_go();
  for (auto n : last.needs) {
    s.wholes[n].let_go();
    for (auto e : needs_[n].edges) s.inputs[e].let_go();
  }
}

// `position` has run forward.
void stage::let_go_done(slot& s, std::size_t position) const {
  auto& pass = s.passes[position];
  pass.in.clear();
  for (const auto& [p, o] : last_[s.h.phase][position].outputs)
    if (p == position) pass.out[o].let_go();  // nobody reads it
  const auto& l = hosted(position);
  if (!training(s) || !l.wants_backward || l.recompute) forget(pass.kept);
}

void stage::take_in_place(slot& s, std::size_t position) const {
  const auto& l = hosted(position);
  if (!l.maths->in_place() || !last_[s.h.phase][position].input_0) return;
  if (training(s) && l.wants_backward && wants_of_[position].inputs) return;
  auto& pass = s.passes[position];
  if (pass.in[0].type() == config_.type && pass.in[0].dims() == pass.out[0].dims() && pass.in[0].reclaim())
    pass.out[0] = pass.in[0];
}

// What is sent along an out-edge; the last message takes our handle with it.
tensor stage::leaving(slot& s, std::size_t edge) const {
  if (remade(edge)) return std::move(s.outgoing[edge]);
  const auto what = out_edge(edge).what;
  const auto p = static_cast<std::size_t>(position_of(what.layer));
  auto& value = s.passes[p].out[what.output];
  auto sent = value;
  bool last = !(training(s) && held_[p][what.output]);
  for (std::size_t e = 0; e < s.sent.size(); ++e)
    if (e != edge && !s.sent[e] && out_edge(e).what == what && !remade(e) && edge_used(out_edge(e), s.h)) last = false;
  if (last) value.let_go();
  return sent;
}

// All has been sent.
void stage::let_go_sent(slot& s) const {
  for (std::size_t p = 0; p < s.passes.size(); ++p)
    for (std::size_t o = 0; o < s.passes[p].out.size(); ++o)
      if (leaves_[s.h.phase][p][o] && !(training(s) && held_[p][o])) s.passes[p].out[o].let_go();
}

// What backward of `position` wants and forward has not kept.
void stage::restore(slot& s, std::size_t position, device& d) const {
  const auto& l = hosted(position);
  if (l.recompute) return make_again(s, position, d);
  if (!wants_of_[position].inputs) return;
  for (std::size_t i = 0; i < l.inputs.size(); ++i) {
    const int q = need_at_[position][i] >= 0 ? -1 : position_of(l.inputs[i].layer);
    if (q < 0 || !recomputes(static_cast<std::size_t>(q))) continue;
    make_again(s, static_cast<std::size_t>(q), d);
    s.passes[position].kept.inputs[i] = s.passes[static_cast<std::size_t>(q)].out[l.inputs[i].output];
  }
}

// A run of such layers is made again as a whole, by whoever asks for its end. Statistics and carried state have left with the packet's
// first forward, and leave once.
void stage::make_again(slot& s, std::size_t position, device& d) const {
  const auto& l = hosted(position);
  auto& pass = s.passes[position];
  if (std::exchange(pass.again, true)) return;
  for (std::size_t i = 0; i < l.inputs.size(); ++i)
    if (const int q = need_at_[position][i] >= 0 ? -1 : position_of(l.inputs[i].layer);
        q >= 0 && recomputes(static_cast<std::size_t>(q)))
      make_again(s, static_cast<std::size_t>(q), d);
  gather(s, position);
  for (auto& t : pass.out) t.let_go();
  auto c = context_of(s, position, d);
  c.stats_out = nullptr;
  if (s.keeps_lanes && !l.carries.empty() && !pass.carried_in.empty()) c.carried_in = &pass.carried_in;
  forget(pass.kept);
  l.maths->forward(c, *pass.plans[0], pass.in, pass.params, pass.out, pass.kept);
  if (wants_of_[position].inputs) pass.kept.inputs = pass.in;
  if (wants_of_[position].outputs) pass.kept.outputs = pass.out;
  pass.in.clear();
}

}  // namespace troupe
