// Replay: what a stage does after the restart of a neighbour, its worker or itself
// (stage_config::retains_for_replay).
//
//   start from a consumer    send it again the forwards that it may still need
//   start from a producer    send it again the backwards that it may still need
//   start from the worker    the worker lost gradients that only this stage had sent: discard all
//                            packets and begin again, like a restarted stage
//   start from the host      this stage was restarted: send start to all of these, which then send
//                            again the messages that they have kept
//
// Invariant: nothing is counted twice. A packet that has left or is bound is recognised by its
// msg_id, gradients by (layer, step, packet), and repeated computations give the same bits. A stage
// that receives a packet that it has finished returns credit for it once more.
//
// Memory: with every packet the loaders send the first step that can still be needed
// (job_plan::needed_from: the losses of a later step are complete, so every layer has received all
// gradients of earlier steps). Every forward, backward and credit passes it on in
// header.needed_from. A stage releases packets of earlier steps, and no longer waits for their
// missing messages. With drain, packets of two or three steps are kept; in general those of at most
// window() + warm_up + 1 steps.
//
// No deadlock: replayed packets can be more than the plan has sub-solvers and credit for, and
// arrive in another order, so stages that join several inputs could block each other. A stage that
// was restarted, or has received a message of a restarted role, therefore adds a sub-solver instead
// of waiting for one, and sends without credit. Packets in flight are still bounded by the loaders'
// credit, and replayed packets by those kept.
#include <algorithm>
#include <set>

#include "runtime/stage/stage.hpp"

namespace troupe {

stage::kept_packet& stage::kept_of(const slot& s) {
  auto& k = kept_[s.h.id];
  if (!k.forwards.empty() || !k.backwards.empty()) return k;
  k.h = s.h;
  k.valid = s.work->valid;
  k.first_example = s.work->first_example;
  k.forwards.resize(self().out_edges.size());
  k.backwards.resize(self().in_edges.size());
  return k;
}

void stage::learn(const envelope& e, effects& out) {
  const bool first = std::holds_alternative<forward>(e.body);
  if (!first && !std::holds_alternative<backward>(e.body) && !std::holds_alternative<credit>(e.body)) return;
  grows_ = grows_ || e.h.incarnation > 0;
  if (horizon_.learn(e.h, first)) forget(out);
}

// Drops packets that are over, and returns their credit. pump() releases the bound ones.
void stage::forget(effects& out) {
  std::erase_if(kept_, [&](const auto& k) {
    if (!horizon_.over(k.second.h)) return false;
    for (auto& c : credit_) c.give_back(k.first);
    return true;
  });
  std::erase_if(early_, [&](const auto& e) { return horizon_.over(e.second.first); });
  std::erase_if(pending_, [&](const auto& p) {
    if (!horizon_.over(p.second.h)) return false;
    for (std::size_t e = 0; e < p.second.inputs.size(); ++e)
      if (p.second.inputs[e]) give_credit(p.second.h, e, out);
    return true;
  });
  weights_.forget(kept_from());
}

void stage::take_start(const header& h, effects& out) {
  if (!config_.retains_for_replay) return;
  grows_ = true;
  if (h.src == no_role)
    announce(out);
  else if (h.src == config_.worker)
    begin_again(out);
  else
    say_again(h.src, out);
}

void stage::announce(effects& out) {
  std::set<role_id> all{config_.worker};
  for (std::size_t e = 0; e < self().in_edges.size(); ++e) all.insert(layout_->in_edge(e).from);
  for (std::size_t e = 0; e < self().out_edges.size(); ++e) all.insert(layout_->out_edge(e).to);
  for (auto to : all) out.send({reply(header{}, to), start{}});
}

void stage::begin_again(effects& out) {
  const bool empty = std::all_of(slots_.begin(), slots_.end(), [](const auto& s) { return s->at == slot::stage_of::free; });
  if (empty && pending_.empty() && kept_.empty()) return;  // this stage was restarted too, and has announced it
  for (auto& s : slots_) {
    const bool runs = s->at == slot::stage_of::forward || s->at == slot::stage_of::backward || s->at == slot::stage_of::lost;
    if (runs)
      s->at = slot::stage_of::lost;
    else
      clear(*s);
  }
  pending_.clear();
  kept_.clear();
  early_.clear();
  credit_.clear();
  for (std::size_t e = 0; e < self().out_edges.size(); ++e) credit_.emplace_back(layout_->out_edge(e).credit);
  ++lives_;
  announce(out);
}

void stage::say_again(role_id to, effects& out) {
  for (auto& entry : kept_) {
    auto& k = entry.second;
    k.h.attempt = static_cast<std::uint8_t>(std::min(k.h.attempt + 1, 255));
    const auto again = [&](std::uint16_t port) {
      auto h = along(k.h, to, port);
      h.attempt = std::max(k.h.attempt, h.attempt);
      return h;
    };
    for (std::size_t e = 0; e < k.forwards.size(); ++e)
      if (k.forwards[e] && layout_->out_edge(e).to == to)
        out.send({again(layout_->out_edge(e).to_port), forward{k.forwards[e], k.valid, k.first_example}});
    for (std::size_t e = 0; e < k.backwards.size(); ++e)
      if (k.backwards[e] && layout_->in_edge(e).from == to)
        out.send({again(layout_->in_edge(e).from_port), backward{k.backwards[e]}});
  }
}

// Takes the gradients that arrived before the packet's forward was recomputed.
void stage::take_early(slot& s) {
  const auto at = early_.find(s.h.id);
  if (at == early_.end()) return;
  if (training(s))
    for (std::size_t e = 0; e < s.arrived.size(); ++e)
      if (at->second.second[e] && s.missing > 0) {
        s.arrived[e] = std::move(at->second.second[e]);
        --s.missing;
      }
  early_.erase(at);
}

}  // namespace troupe
