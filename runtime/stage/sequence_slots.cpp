#include "runtime/stage/sequence_slots.hpp"

#include <algorithm>

#include "runtime/plan/carried.hpp"

namespace troupe {

sequence_slots::sequence_slots(std::shared_ptr<const stage_layout> layout, std::uint64_t first_step, bool given, dtype type)
    : layout_(std::move(layout)), first_step_(first_step), given_(given), type_(type) {
  const auto& me = layout_->self();
  for (std::size_t p = 0; p < me.layers.size(); ++p) carries_ = carries_ || !layout_->hosted(p).carries.empty();
  if (!carries_ || me.tester || given_) return;
  for (auto k = me.packets.first; k < me.packets.first + me.packets.count; ++k) slots_[0][k].next = first_step_;
}

std::size_t sequence_slots::position_of(std::uint32_t layer) const {
  const auto& mine = layout_->self().layers;
  return static_cast<std::size_t>(std::find(mine.begin(), mine.end(), layer) - mine.begin());
}

// A packet that begins with zeros (flag_reset) still waits for its predecessor, which would
// otherwise overwrite the state that this packet leaves.
bool sequence_slots::turn_of(const header& h) const {
  const auto all = layout_->plan().packets;
  const bool train = h.phase == static_cast<std::uint8_t>(phase::train);
  if (!train && h.packet < all) return true;
  const auto at = slots_[h.phase].find(h.packet % all);
  if (at == slots_[h.phase].end()) return false;
  return train ? at->second.next == h.step : at->second.round == h.step && at->second.next == h.packet;
}

void sequence_slots::enter(stage_slot& s) const {
  auto& w = *s.work;
  w.continues_sequences = concerns(s.h) && !s.is_void;
  for (auto& pass : w.passes) pass.carried_in.clear(), pass.carried_out.clear();
  if (!w.continues_sequences) return;
  for (std::size_t p = 0; p < w.passes.size(); ++p)
    for (const auto& c : layout_->hosted(p).carries) w.passes[p].carried_out.push_back(tensor::declare(c.dims, type_));
  const auto all = layout_->plan().packets;
  if (w.training() ? (s.h.flags & flag_reset) != 0 : s.h.packet < all) return;
  const auto& carried = slots_[s.h.phase].at(s.h.packet % all).state;
  for (std::size_t p = 0; p < carried.size(); ++p) w.passes[p].carried_in = carried[p];
}

void sequence_slots::leave(stage_slot& s) {
  auto& w = *s.work;
  if (!w.continues_sequences) return;
  auto& l = slots_[s.h.phase][s.h.packet % layout_->plan().packets];
  l.round = s.h.step;
  l.next = w.training() ? s.h.step + 1 : s.h.packet + layout_->plan().packets;
  l.state.assign(w.passes.size(), {});
  for (std::size_t p = 0; p < w.passes.size(); ++p) l.state[p] = std::move(w.passes[p].carried_out);
}

std::vector<state> sequence_slots::collected(std::uint64_t request) const {
  std::vector<state> list;
  for (const auto& piece : carried_pieces(layout_->graph(), layout_->plan())) {
    if (piece.stage != layout_->self().id) continue;
    state answer{request, piece.block, {}, {}};
    if (const auto l = slots_[0].find(piece.packet); l != slots_[0].end() && !l->second.state.empty()) {
      const auto& have = l->second.state[position_of(piece.layer)];
      if (!have.empty()) answer.value = have[0];
      for (std::size_t k = 1; k < have.size(); ++k) answer.rule.push_back(have[k]);
    }
    list.push_back(std::move(answer));
  }
  return list;
}

// A packet may run as soon as the pieces of all its layers have been restored.
void sequence_slots::restore(const restore_state& piece) {
  if (!carries_ || !given_ || !restored_.insert(piece.block).second) return;  // duplicate
  const auto self = layout_->self().id;
  const auto pieces = carried_pieces(layout_->graph(), layout_->plan());
  const auto mine =
      std::find_if(pieces.begin(), pieces.end(), [&](const carried_piece& x) { return x.block == piece.block && x.stage == self; });
  if (mine == pieces.end()) return;
  auto& all = coming_[mine->packet];
  all.resize(layout_->self().layers.size());
  auto& here = all[position_of(mine->layer)];
  if (piece.value) here.push_back(piece.value);
  here.insert(here.end(), piece.rule.begin(), piece.rule.end());
  const bool missing = std::any_of(pieces.begin(), pieces.end(), [&](const carried_piece& x) {
    return x.stage == self && x.packet == mine->packet && restored_.count(x.block) == 0;
  });
  if (!missing) slots_[0][mine->packet] = {first_step_, 0, coming_.extract(mine->packet).mapped()};
}

}  // namespace troupe
