#include "runtime/stage/stage_weights.hpp"

#include <algorithm>

namespace troupe {

stage_weights::stage_weights(const std::vector<layer_wants>& layers, weight_rule rule, std::uint64_t first_step)
    : all_(layers.size()), rule_(rule), first_step_(first_step) {
  for (std::size_t p = 0; p < all_.size(); ++p) all_[p].wants = layers[p];
}

bool stage_weights::take(std::size_t position, std::uint64_t version, tensors values) {
  auto& v = all_[position];
  if (v.any && version < v.newest) return false;
  v.here.insert_or_assign(version, std::move(values));
  v.newest = std::max(v.newest, version);
  v.any = true;
  // The gradients of all earlier steps have been sent, so future packets belong to later steps.
  v.here.erase(v.here.begin(), v.here.lower_bound(oldest_wanted(v)));
  return true;
}

std::uint64_t stage_weights::oldest_wanted(const versions& v) const {
  const auto back = rule_ == weight_rule::stash ? v.wants.delay : 0;
  return v.newest > back ? v.newest - back : 0;
}

// An evaluation runs at a boundary, where all layers are at the same version: no delay.
std::uint64_t stage_weights::wanted_by(const header& h, const versions& v) const {
  const auto delay = h.phase == static_cast<std::uint8_t>(phase::train) ? v.wants.delay : 0;
  return std::min(h.version, std::max(first_step_, h.version - std::min(h.version, delay)));
}

const stage_weights::entry* stage_weights::of(const header& h, std::size_t position) const {
  const auto& v = all_[position];
  const auto want = wanted_by(h, v);
  if (rule_ == weight_rule::latest && h.phase == static_cast<std::uint8_t>(phase::train))
    return v.here.empty() || v.here.rbegin()->first < want ? nullptr : &*v.here.rbegin();
  const auto at = v.here.find(want);
  return at == v.here.end() ? nullptr : &*at;
}

bool stage_weights::here_for(const header& h) const {
  for (std::size_t p = 0; p < all_.size(); ++p)
    if (wanted(p) && !of(h, p)) return false;
  return true;
}

bool stage_weights::beyond(std::uint64_t version) const {
  return std::any_of(all_.begin(), all_.end(), [&](const versions& v) { return v.wants.parameters && v.newest > version; });
}

std::uint64_t stage_weights::newest() const {
  std::uint64_t most = 0;
  for (const auto& v : all_) most = std::max(most, v.newest);
  return most;
}

const tensors& stage_weights::newest_values(std::size_t position) const { return all_[position].here.at(all_[position].newest); }

void stage_weights::count(const std::vector<std::unique_ptr<stage_slot>>& slots) {
  for (std::size_t p = 0; p < all_.size(); ++p) {
    if (!wanted(p)) continue;
    const auto& here = all_[p].here;
    auto alive = here.size();
    const auto met = [&](const auto& s) { return s->at != stage_slot::stage_of::free && s->weights[p].any; };
    for (auto s = slots.begin(); s != slots.end(); ++s) {
      const auto same = [&](const auto& other) { return met(other) && other->weights[p].version == (*s)->weights[p].version; };
      if (met(*s) && !here.count((*s)->weights[p].version) && std::none_of(slots.begin(), s, same)) ++alive;
    }
    max_ = std::max(max_, static_cast<std::uint32_t>(alive));
  }
}

}  // namespace troupe
