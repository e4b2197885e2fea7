#include "runtime/stage/stage.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "runtime/base/invariant.hpp"
#include "runtime/base/number_text.hpp"
#include "runtime/model/share.hpp"

namespace troupe {
namespace {

// All inputs of one packet must have the same phase, step, version and number.
bool same_packet(const header& a, const header& b) {
  return a.phase == b.phase && a.step == b.step && a.version == b.version && a.packet == b.packet && a.packets == b.packets;
}

// By position: the layers that a stage hosts.
std::vector<stage_weights::layer_wants> wants_of(const stage_layout& m, const job_plan& p) {
  std::vector<stage_weights::layer_wants> list;
  for (std::size_t at = 0; at < m.self().layers.size(); ++at)
    list.push_back({!m.hosted(at).params.empty(), p.delay_of(m.hosted(at).index)});
  return list;
}

}  // namespace

stage::stage(stage_config c)
    : config_(std::move(c)),
      layout_(std::make_shared<stage_layout>(config_.graph, config_.plan, config_.self)),
      maths_(std::make_shared<stage_maths>(layout_, config_.seed, config_.type)),
      weights_(wants_of(*layout_, *config_.plan), config_.plan->rule, config_.first_step),
      sequences_(layout_, config_.first_step, config_.await_carried, wide_of(config_.type)) {
  for (std::uint32_t i = 0; i < config_.slots; ++i) {
    auto& s = slots_.emplace_back(std::make_unique<slot>());
    s->index = i;
    s->weights.resize(self().layers.size());
    s->work->passes.resize(self().layers.size());
  }
  for (std::size_t e = 0; e < self().out_edges.size(); ++e) credit_.emplace_back(layout_->out_edge(e).credit);
}

stage::~stage() = default;

void stage::clear(slot& s) {
  s.at = slot::stage_of::free;
  s.arrived.clear();
  for (auto& held : s.weights) held.any = false;
  stage_maths::let_go_all(*s.work);
}

header stage::reply(const header& of, role_id to) const {
  header h = of;
  h.job = config_.job;
  h.src = config_.self;
  h.dst = to;
  h.port = 0;
  return h;
}

header stage::along(const header& of, role_id to, std::uint16_t port) const {
  auto h = reply(of, to);
  h.port = port;
  return h;
}

std::uint32_t stage::backwards_of(const header& h) const {
  std::uint32_t n = 0;
  for (std::size_t e = 0; e < self().out_edges.size(); ++e)
    n += layout_->out_edge(e).grad_back && layout_->edge_used(layout_->out_edge(e), h) ? 1u : 0u;
  return n;
}

void stage::on(const envelope& e, time_point, effects& out) {
  if (const auto why = fault_of(e)) return drop(*why);
  std::visit(overloaded{
                 [&](const forward&) { take_forward(e); },
                 [&](const backward&) { take_backward(e); },
                 [&](const layer_weights&) { take_weights(e); },
                 [&](const credit&) {
                   if (!credit_[e.h.port].give_back(e.h.id)) drop(drop_reason::repeated);
                 },
                 [&](const user&) { on_user(e, out); },
                 [&](const collect&) { take_collect(e, out); },
                 [&](const restore_state& s) { sequences_.restore(s); },
                 [&](const halt&) { pending_.clear(), out.stop(); },
                 [&](const finished& f) { take_finished(f, out); },
                 [&](const auto&) { drop(drop_reason::unexpected); },
             },
             e.body);
  pump(out);
}

void stage::take_finished(const finished& f, effects& out) {
  auto& s = slot_at(static_cast<std::uint32_t>(f.token >> 32));
  const auto kind = static_cast<std::uint32_t>(f.token);
  s.work.give_back();
  if (kind == kind_forward)
    forward_done(s, out);
  else if (kind == kind_backward)
    backward_done(s, out);
  else
    on_task(s, kind - kind_own, out);
}

void stage::take_forward(const envelope& e) {
  const auto& f = std::get<forward>(e.body);
  const auto port = e.h.port;
  if (slot_of(e.h.id)) return drop(drop_reason::repeated);
  if (is_past(e.h.id)) return drop(drop_reason::outdated);
  const auto known = pending_.find(e.h.id);
  if (known == pending_.end() ? beyond_credit(port) : !same_packet(known->second.h, e.h))
    return drop(known == pending_.end() ? drop_reason::unexpected : drop_reason::malformed);
  auto& p = pending_[e.h.id];
  if (p.inputs.empty()) {
    p.inputs.resize(self().in_edges.size());
    for (std::size_t i = 0; i < p.inputs.size(); ++i) p.missing += layout_->edge_used(layout_->in_edge(i), e.h) ? 1u : 0u;
  }
  if (p.inputs[port]) return drop(drop_reason::repeated);
  const auto marks = p.h.flags | e.h.flags;
  p.h = e.h;
  p.h.flags = static_cast<std::uint8_t>(marks & (flag_void | flag_reset));
  p.valid = f.valid;
  p.first_example = f.first_example;
  p.inputs[port] = f.value;
  --p.missing;
}

void stage::take_backward(const envelope& e) {
  auto* s = slot_of(e.h.id);
  if (!s) return drop(drop_reason::outdated);
  if (!training(*s) || s->h.packet != e.h.packet) return drop(drop_reason::malformed);
  if (s->missing == 0 || s->arrived[e.h.port]) return drop(drop_reason::repeated);
  if (!s->sent[e.h.port]) return drop(drop_reason::unrequested);
  s->arrived[e.h.port] = std::get<backward>(e.body).grad;
  s->is_void = s->is_void || (e.h.flags & flag_void);
  --s->missing;
}

void stage::take_weights(const envelope& e) {
  const auto& w = std::get<layer_weights>(e.body);
  const auto p =
      static_cast<std::size_t>(layout_->position_of(static_cast<std::int32_t>(w.layer)));  // there: fault_of() has looked
  if (!weights_.take(p, e.h.version, w.values)) return drop(drop_reason::repeated);
  weights_.count(slots_);
}

// The coordinator collects at a boundary, when every packet of earlier steps has left.
void stage::take_collect(const envelope& e, effects& out) {
  header h;
  h.job = config_.job;
  h.src = config_.self;
  h.dst = e.h.src;
  for (auto& piece : sequences_.collected(std::get<collect>(e.body).request)) out.send({h, std::move(piece)});
}

stage::slot* stage::slot_of(msg_id id) {
  for (auto& s : slots_)
    if (s->at != slot::stage_of::free && s->h.id == id) return s.get();
  return nullptr;
}

// Returns true if the packet is void, or its step was finished without it (another worker computed
// a copy of its work unit): the weights that it needs may have been released.
bool stage::overtaken(const header& h) const { return (h.flags & flag_void) || weights_.beyond(h.version); }

// Ends the wait of a gather slot whose step was overtaken: the other packets of the step will be
// void.
void stage::go_on_void(slot& s, effects& out) {
  s.is_void = true;
  s.h.flags |= flag_void;
  const bool ahead = s.at == slot::stage_of::gather_forward;
  s.at = ahead ? slot::stage_of::forward : slot::stage_of::backward;
  ahead ? forward_done(s, out) : backward_done(s, out);
}

bool stage::can_run(const pending& p) const {
  return p.missing == 0 && (overtaken(p.h) || (weights_.here_for(p.h) && sequences_.let_run(p.h)));
}

// Runs everything that can run: first the slots in use, which may become free, then new packets in
// the order of their ids.
void stage::pump(effects& out) {
  for (auto& s : slots_) {
    if (s->at == slot::stage_of::sending) send_outputs(*s, out);
    if (s->at == slot::stage_of::waiting && s->missing == 0) enter_backward(*s, out);
    if (gathering(*s) && overtaken(s->h)) go_on_void(*s, out);
  }
  for (auto& s : slots_)
    while (s->at == slot::stage_of::free) {  // a void packet may free the slot immediately
      auto next = pending_.begin();
      while (next != pending_.end() && !can_run(next->second)) ++next;
      if (next == pending_.end()) return;
      bind(*s, std::move(next->second));
      pending_.erase(next);
      s->is_void ? forward_done(*s, out) : begin_forward(*s, out);
    }
}

void stage::bind(slot& s, pending&& p) {
  invariant(s.at == slot::stage_of::free && p.missing == 0, "a complete packet enters a free sub-solver");
  s.at = slot::stage_of::forward;
  s.h = p.h;
  s.is_void = overtaken(p.h);
  if (s.is_void) s.h.flags |= flag_void;
  auto& w = *s.work;
  w.h = s.h;
  w.valid = p.valid;
  w.first_example = p.first_example;
  w.inputs = std::move(p.inputs);
  w.examples = config_.graph->packet_examples;
  for (std::size_t e = 0; e < w.inputs.size(); ++e)
    if (const auto& t = w.inputs[e]; t && t.dims().rank() > 0 && !is_parameter(*config_.graph, layout_->in_edge(e).what))
      w.examples = t.dims()[0];
  w.scalars.clear();
  w.scalar_weights.clear();
  s.arrived.assign(self().out_edges.size(), tensor{});
  s.sent.assign(self().out_edges.size(), false);
  s.missing = training(s) ? backwards_of(s.h) : 0;
  declare(s);
  sequences_.enter(s);
}

// Sets the weights of the packet, and declares every tensor of its pass.
void stage::declare(slot& s) {
  for (std::size_t p = 0; p < s.weights.size(); ++p) {
    const auto* w = weights_.of(s.h, p);
    if (!w || layout_->hosted(p).params.empty()) continue;
    s.work->passes[p].params = w->second;
    s.weights[p] = {true, w->first, config_.plan->rule == weight_rule::stash ? s.h.version - w->first : 0};
  }
  maths_->declare(*s.work);
}

void stage::begin_forward(slot& s, effects& out) {
  run(
      s, kind_forward, [maths = maths_](packet_work& w, task_context& c) { maths->run_forward(w, c.dev); }, layout_->cost_forward(),
      out);
}

void stage::begin_backward(slot& s, effects& out) {
  run(
      s, kind_backward, [maths = maths_](packet_work& w, task_context& c) { maths->run_backward(w, c.dev); },
      layout_->cost_backward(), out);
}

// The coordinator drops a report with such a weight, and its evaluation would wait for another one.
// Throws std::runtime_error, which is the failure of this role.
static void check_weights(const packet_work& w) {
  for (std::size_t i = 0; i < w.scalar_weights.size(); ++i)
    if (const double v = w.scalar_weights[i]; !std::isfinite(v) || v < 0)
      throw std::runtime_error("mean_weight() of layer '" + w.scalars[i].first + "' returned " + number_text(v) + " for packet " +
                               std::to_string(w.h.packet) +
                               " of an evaluation. Return a finite number of at least 0, or an empty tensor: the weight of a "
                               "packet is then the number of its examples");
}

void stage::forward_done(slot& s, effects& out) {
  sequences_.leave(s);
  check_weights(*s.work);
  if (layout_->reports(s.h.phase))
    out.send(
        {reply(s, config_.coordinator), s.is_void ? report{} : report{s.work->scalars, s.work->valid, s.work->scalar_weights}});
  if (config_.plan->rule == weight_rule::latest && training(s)) {  // the backward takes the newest version at its start
    for (auto& pass : s.work->passes) pass.params.clear();
    for (auto& held : s.weights) held.any = false;
  }
  s.at = slot::stage_of::sending;
  send_outputs(s, out);
}

// Sends the outputs that credit allows. Returns true if all have been sent and the slot has
// advanced.
bool stage::send_outputs(slot& s, effects& out) {
  bool all = true;
  for (std::size_t e = 0; e < s.sent.size(); ++e) {
    const auto& edge = layout_->out_edge(e);
    if (s.sent[e] || !layout_->edge_used(edge, s.h)) continue;
    if (credit_[e].left() == 0) {
      all = false;
      continue;
    }
    credit_[e].take(s.h.id);
    s.sent[e] = true;
    auto h = along(s.h, edge.to, edge.to_port);
    auto value = maths_->leaving(*s.work, e, s.sent);
    out.send({h, forward{std::move(value), s.work->valid, s.work->first_example}});
  }
  if (!all) return false;
  maths_->let_go_sent(*s.work);
  if (!training(s) || !layout_->wants_backward()) {
    release(s, out);
  } else {
    s.at = slot::stage_of::waiting;
    if (s.missing == 0) enter_backward(s, out);
  }
  return true;
}

void stage::enter_backward(slot& s, effects& out) {
  invariant(s.missing == 0, "a backward begins when all gradients are here");
  s.at = slot::stage_of::backward;
  if (s.is_void) return backward_done(s, out);
  std::swap(s.work->arriving, s.arrived);
  if (config_.plan->rule == weight_rule::latest)
    for (std::size_t p = 0; p < s.weights.size(); ++p) {
      if (!weights_.wanted(p)) continue;
      const auto newest = weights_.newest(p);
      s.weights[p] = {true, newest, newest - s.weights[p].version};
      s.work->passes[p].params = weights_.newest_values(p);
    }
  begin_backward(s, out);
}

void stage::backward_done(slot& s, effects& out) {
  auto& w = *s.work;
  for (std::size_t e = 0; e < self().in_edges.size(); ++e) {
    const auto& edge = layout_->in_edge(e);
    if (!edge.grad_back || !layout_->edge_used(edge, s.h)) continue;
    auto h = along(s.h, edge.from, edge.from_port);
    if (s.is_void) h.flags |= flag_void;
    // run_backward stored the gradient in the place of the input
    auto grad = s.is_void ? tensor::declare(w.inputs[e].dims(), w.inputs[e].type()) : std::move(w.inputs[e]);
    out.send({h, backward{std::move(grad)}});
  }
  for (std::size_t p = w.passes.size(); p-- > 0;) {
    const auto& l = layout_->hosted(p);
    auto& pass = w.passes[p];
    if (l.params.empty() || !l.in_train || s.is_void || pass.gradient_of == 0) continue;
    auto h = reply(s, config_.worker);
    const auto lag = static_cast<std::uint32_t>(s.weights[p].lag);
    out.send({h, gradient{l.index, std::move(pass.grad_params), std::move(pass.stats), pass.gradient_of, lag}});
  }
  release(s, out);
}

void stage::release(slot& s, effects& out) {
  for (std::size_t e = 0; e < self().in_edges.size(); ++e)
    if (layout_->edge_used(layout_->in_edge(e), s.h)) give_credit(s.h, e, out);
  past_.push_back(s.h.id);
  if (past_.size() > 4 * slots_.size() + 16) past_.pop_front();
  clear(s);
}

void stage::give_credit(const header& of, std::size_t edge, effects& out) {
  out.send({along(of, layout_->in_edge(edge).from, layout_->in_edge(edge).from_port), credit{1}});
}

bool stage::is_past(msg_id id) const { return std::find(past_.begin(), past_.end(), id) != past_.end(); }

}  // namespace troupe
