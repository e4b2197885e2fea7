#include "runtime/stage/gather_stage.hpp"

#include <algorithm>
#include <bit>

#include "ops/packet_sum.hpp"
#include "ops/tree/packet_tree.hpp"

namespace troupe {
namespace {

// Declares the result of stacked() for `packets` tensors like this one: one after the other along
// axis 0, without memory.
tensor stack_of(const tensor& like, std::size_t packets) {
  shape s = like.dims();
  s.set(0, s[0] * static_cast<std::int64_t>(packets));
  return tensor::declare(s, like.type());
}

using packets = std::vector<std::shared_ptr<packet_work>>;

// Returns true if this maths step can compute the packets of a training step as one: its first
// layer has gather = true and supports it, and no other layer of it has parameters.
bool at_once(const stage_maths& m, const maths_step& step) {
  return m.layout().hosted(step.first()).gather && step.maths->gathered() &&
         std::all_of(step.at.begin() + 1, step.at.end(), [&](auto p) { return m.layout().hosted(p).params.empty(); });
}

void step_forward_all(const stage_maths& m, const packets& all, const maths_step& step, device& d) {
  const auto at = step.first();
  auto& leader = *all[0];
  auto& pass = leader.passes[at];
  for (const auto& w : all) {
    m.gather(*w, at);
    m.let_go_read(*w, step);
  }
  for (std::size_t i = 0; i < pass.in.size(); ++i) {
    tensors parts;
    for (const auto& w : all) parts.push_back(std::move(w->passes[at].in[i]));
    pass.in[i] = stacked(d, parts);
  }
  auto& made = leader.passes[step.last()].out;
  for (auto& y : made) y = stack_of(y, all.size());
  const auto count = static_cast<std::int64_t>(all.size());
  m.prepare(leader, step, leader.examples * count, d);
  auto c = m.context_of(leader, at, d);
  step.maths->gathered()->forward_all(c, count, *pass.plans[0], pass.in, pass.params, made, pass.kept);
  m.keep(leader, step);
  const tensors out = made;
  for (std::size_t k = 0; k < all.size(); ++k) {
    auto& mine = all[k]->passes[step.last()].out;
    for (std::size_t o = 0; o < out.size(); ++o) mine[o] = packet_of(out[o], static_cast<std::int64_t>(k), count);
    m.let_go_done(*all[k], step);
  }
}

void forward_all(const stage_maths& m, const packets& all, device& d) {
  for (const auto& w : all) m.join_inputs(*w, d);
  for (const auto& step : m.layout().steps()) {
    if (!m.layout().hosted(step.first()).in_train) continue;
    if (at_once(m, step)) {
      step_forward_all(m, all, step, d);
      continue;
    }
    for (const auto& w : all) m.step_forward(*w, step, d);
  }
  for (const auto& w : all) m.cut_outputs(*w, d);
}

void step_backward_all(const stage_maths& m, const packets& all, const maths_step& step, device& d) {
  const auto at = step.first();
  auto& pass = all[0]->passes[at];
  for (const auto& w : all) m.fill_grad_out(*w, step.last(), d);
  tensors dy, dx;
  for (std::size_t o = 0; o < all[0]->passes[step.last()].grad_out.size(); ++o) {
    tensors parts;
    for (const auto& w : all) parts.push_back(std::move(w->passes[step.last()].grad_out[o]));
    dy.push_back(stacked(d, parts));
  }
  for (const auto& g : pass.grad_in) dx.push_back(g ? stack_of(g, all.size()) : tensor{});
  auto c = m.context_of(*all[0], at, d);
  const auto count = static_cast<std::int64_t>(all.size());
  step.maths->gathered()->backward_all(c, count, *pass.plans[0], pass.kept, pass.params, dy, dx, pass.grad_params);
  stage_maths::forget(pass.kept);
  for (std::size_t k = 0; k < all.size(); ++k) {
    auto& mine = all[k]->passes[at];
    for (std::size_t i = 0; i < dx.size(); ++i)
      if (dx[i]) mine.grad_in[i] = packet_of(dx[i], static_cast<std::int64_t>(k), count);
    for (auto& y : all[k]->passes[step.last()].out) y.let_go();
    mine.gradient_of =
        k == 0 ? std::bit_ceil(m.layout().self().packets.count) : 0;  // the tree block may be cut off at the end of the packets
  }
}

void backward_all(const stage_maths& m, const packets& all, device& d) {
  for (const auto& w : all) m.unpack_arriving(*w, d);
  for (auto step = m.layout().steps().rbegin(); step != m.layout().steps().rend(); ++step) {
    const auto& l = m.layout().hosted(step->first());
    if (!l.wants_backward || !l.in_train) continue;
    if (at_once(m, *step)) {
      step_backward_all(m, all, *step, d);
      continue;
    }
    for (const auto& w : all) m.step_backward(*w, *step, d);
  }
  for (const auto& w : all) m.hand_back(*w, d);
}

}  // namespace

expected<void> gather_stage::check(const job_plan& p, const graph_layer& l) {
  if (!l.gather) return {};
  for (const auto& r : p.roles) {
    if (!r.trains() || std::find(r.layers.begin(), r.layers.end(), l.index) == r.layers.end()) continue;
    for (const auto& of_worker : p.ranges)
      if (intersection(of_worker, r.packets).count > 0 && of_worker.count > p.sub_solvers)
        return unexpected(
            error("gather = true computes the packets of a step as one, so all of them must be in flight: a worker has " +
                  std::to_string(of_worker.count) + ", but pipeline.sub_solvers = " + std::to_string(p.sub_solvers)));
    if (p.groups.size() != 1 || cover(r.packets.first, r.packets.count, p.packets).size() != 1)
      return unexpected(error(
          "gather = true requires that the packets of a part are one node of the packet tree: " + std::to_string(r.packets.count) +
          " packets from packet " + std::to_string(r.packets.first) + " are not (use a power of two)"));
  }
  return {};
}

void gather_stage::begin_forward(slot& s, effects& out) {
  if (!training(s)) return stage::begin_forward(s, out);
  wait(s, slot::stage_of::gather_forward, slot::stage_of::forward, ahead, out);
}

void gather_stage::begin_backward(slot& s, effects& out) {
  wait(s, slot::stage_of::gather_backward, slot::stage_of::backward, back, out);
}

void gather_stage::wait(slot& s, slot::stage_of waiting, slot::stage_of running, task_of task, effects& out) {
  s.at = waiting;
  slots all;
  for (std::uint32_t i = 0; i < slot_count(); ++i)
    if (auto& other = slot_at(i); other.at == waiting && other.h.step == s.h.step) all.push_back(&other);
  if (all.size() < self().packets.count) return;
  std::sort(all.begin(), all.end(), [](const auto* a, const auto* b) { return a->h.packet < b->h.packet; });
  for (auto* p : all) p->at = running;
  led_[all[0]->index] = all;
  auto cost = task == ahead ? layout().cost_forward() : layout().cost_backward();
  cost.flops *= static_cast<double>(all.size());
  packets others;  // the task of the first packet computes all
  for (auto p = all.begin() + 1; p != all.end(); ++p) others.push_back((*p)->work.lend());
  run_own(
      *all[0], task,
      [m = maths_of_stage(), task, others = std::move(others)](packet_work& first, task_context& c) {
        packets every{first.shared_from_this()};
        every.insert(every.end(), others.begin(), others.end());
        task == ahead ? forward_all(*m, every, c.dev) : backward_all(*m, every, c.dev);
      },
      cost, out);
}

// The task of `s` has finished: returns the packets that it computed. The stage has the data of `s`
// back, and of the others from now on.
gather_stage::slots gather_stage::led_by(const slot& s) {
  auto led = led_.extract(s.index);
  if (!led) return {};
  for (auto* p : led.mapped())
    if (p != &s) p->work.give_back();
  return std::move(led.mapped());
}

void gather_stage::on_task(slot& s, std::uint32_t task, effects& out) {
  for (auto* p : led_by(s)) task == ahead ? forward_done(*p, out) : backward_done(*p, out);
}

}  // namespace troupe
