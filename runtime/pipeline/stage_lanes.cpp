// State that layers carry from step to step (carried.hpp): who may run, what a packet begins with, and what is kept of it.
#include <algorithm>

#include "runtime/pipeline/carried.hpp"
#include "runtime/pipeline/stage.hpp"

namespace troupe {

void stage::begin_lanes() {
  const auto& me = self();
  for (std::size_t p = 0; p < me.layers.size(); ++p) carries_ = carries_ || !hosted(p).carries.empty();
  if (!carries_ || me.tester || config_.await_carried) return;
  for (auto k = me.packets.first; k < me.packets.first + me.packets.count; ++k) {
    lanes_[0][k].next = config_.first_step;
  }
}

// A packet that begins anew still comes after the one before: else that one would leave its state behind this one's.
bool stage::lanes_ready(const header& h) const {
  if (!in_lanes(h)) return true;
  const auto all = config_.plan->packets;
  const bool train = h.phase == static_cast<std::uint8_t>(phase::train);
  if (!train && h.packet < all) return true;
  const auto at = lanes_[h.phase].find(h.packet % all);
  if (at == lanes_[h.phase].end()) return false;
  return train ? at->second.next == h.step : at->second.round == h.step && at->second.next == h.packet;
}

void stage::enter_lanes(slot& s) {
  s.keeps_lanes = in_lanes(s.h) && !s.is_void;
  for (auto& pass : s.passes) pass.carried_in.clear(), pass.carried_out.clear();
  if (!s.keeps_lanes) return;
  const auto all = config_.plan->packets;
  if (training(s) ? (s.h.flags & flag_reset) != 0 : s.h.packet < all) return;
  const auto& state = lanes_[s.h.phase].at(s.h.packet % all).state;
  for (std::size_t p = 0; p < state.size(); ++p) s.passes[p].carried_in = state[p];
}

void stage::leave_lanes(slot& s) {
  if (!s.keeps_lanes) return;
  auto& l = lanes_[s.h.phase][s.h.packet % config_.plan->packets];
  l.round = s.h.step;
  l.next = training(s) ? s.h.step + 1 : s.h.packet + config_.plan->packets;
  l.state.assign(s.passes.size(), {});
  for (std::size_t p = 0; p < s.passes.size(); ++p) l.state[p] = std::move(s.passes[p].carried_out);
}

// The coordinator asks at a boundary: every packet before it has left.
void stage::take_collect(const envelope& e, effects& out) {
  const auto& me = self();
  for (const auto& piece : carried_pieces(*config_.graph, *config_.plan)) {
    if (piece.stage != config_.self) continue;
    state answer{std::get<collect>(e.body).request, piece.block, {}, {}};
    header h;
    h.job = config_.job;
    h.src = config_.self;
    h.dst = e.h.src;
    if (const auto l = lanes_[0].find(piece.packet); l != lanes_[0].end() && !l->second.state.empty()) {
      const auto p = std::find(me.layers.begin(), me.layers.end(), piece.layer) - me.layers.begin();
      const auto& have = l->second.state[static_cast<std::size_t>(p)];
      if (!have.empty()) answer.value = have[0];
      for (std::size_t k = 1; k < have.size(); ++k) answer.rule.push_back(have[k]);
      h.step = l->second.next;
    }
    out.send({h, std::move(answer)});
  }
}

// Packet by packet: one whose layers have all got theirs may run.
void stage::take_carried(const restore_state& s) {
  const auto& me = self();
  if (!carries_ || !config_.await_carried || !restored_.insert(s.block).second) return;  // twice
  const auto pieces = carried_pieces(*config_.graph, *config_.plan);
  const auto mine = std::find_if(pieces.begin(), pieces.end(),
                                 [&](const carried_piece& x) { return x.block == s.block && x.stage == config_.self; });
  if (mine == pieces.end()) return;
  auto& all = coming_[mine->packet];
  all.resize(me.layers.size());
  auto& here = all[static_cast<std::size_t>(std::find(me.layers.begin(), me.layers.end(), mine->layer) - me.layers.begin())];
  if (s.value) here.push_back(s.value);
  here.insert(here.end(), s.rule.begin(), s.rule.end());
  const bool missing = std::any_of(pieces.begin(), pieces.end(), [&](const carried_piece& x) {
    return x.stage == config_.self && x.packet == mine->packet && restored_.count(x.block) == 0;
  });
  if (!missing) lanes_[0][mine->packet] = {config_.first_step, 0, coming_.extract(mine->packet).mapped()};
}

}  // namespace troupe
