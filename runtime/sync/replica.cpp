#include "runtime/sync/replica.hpp"

#include <algorithm>
#include <utility>

#include "runtime/messages/fits.hpp"
#include "runtime/sync/shard_block.hpp"

namespace troupe {

replica::replica(replica_config c) : config_(std::move(c)) {
  const auto& p = *config_.plan;
  before_ = p[config_.self].original;
  for (auto r : p.copies_of(before_)) {
    if (behind_ != no_role) break;
    if (index_of(r) < index_of(config_.self)) before_ = r;
    if (index_of(r) > index_of(config_.self)) behind_ = r;
  }
}

void replica::on(const envelope& e, time_point, effects& out) {
  std::visit(overloaded{
                 [&](const state& s) {
                   if (quiesced_) return drop(drop_reason::quiesced);
                   if (e.h.src != before_) return drop(drop_reason::misaddressed);
                   take(e.h, s, out);
                 },
                 [&](const ready& r) {
                   if (quiesced_) return drop(drop_reason::quiesced);
                   if (r.what != ready::what_of::copied) return drop(drop_reason::unexpected);
                   if (e.h.src != behind_) return drop(drop_reason::misaddressed);
                   answer(e.h.mode_epoch, e.h.version, r.block, out);
                 },
                 [&](const quiesce& q) {
                   quiesced_ = true;
                   send_inventory(e.h, q, out);
                 },
                 [&](const collect& c) { send_version(e.h, c, out); },
                 [&](const halt&) { out.stop(); },
                 [](const start&) {},
                 [&](const auto&) { drop(drop_reason::unexpected); },
             },
             e.body);
}

void replica::take(const header& h, const state& s, effects& out) {
  const auto& blocks = config_.plan->blocks;
  const bool mine = s.block < blocks.size() && blocks[s.block].shard == (*config_.plan)[config_.self].original;
  if (!mine) return drop(drop_reason::misaddressed);
  if (!holds(s.value, blocks[s.block].count, config_.type) || !all_hold(s.rule, blocks[s.block].count, config_.type) ||
      (!s.rule.empty() && s.rule.size() != config_.rule_states))
    return drop(drop_reason::malformed);
  auto& b = blocks_[s.block];
  if (h.mode_epoch != b.mode_epoch) b = {h.mode_epoch, {}};
  if (b.versions.empty() || h.version > b.versions.rbegin()->first) {
    kept_version is{s.updates, s.value, s.rule};
    if (is.rule.empty() && !b.versions.empty()) is.rule = b.versions.rbegin()->second.rule;
    b.versions[h.version] = std::move(is);
    while (b.versions.begin()->first < std::min(s.wanted, h.version)) b.versions.erase(b.versions.begin());
  }
  if (behind_ == no_role) return answer(h.mode_epoch, h.version, s.block, out);
  auto on = h;
  on.src = config_.self;
  on.dst = behind_;
  on.incarnation = 0;
  out.send({on, s});
}

void replica::answer(std::uint8_t mode_epoch, std::uint64_t version, std::uint32_t block, effects& out) const {
  auto h = header_between(config_.job, config_.self, before_);
  h.mode_epoch = mode_epoch;
  h.version = version;
  ready r{ready::what_of::copied};
  r.block = block;
  out.send({h, r});
}

void replica::send_inventory(const header& h, const quiesce& q, effects& out) const {
  inventory all{q.request, {}, {}};
  for (const auto& [id, b] : blocks_) {
    all.least.emplace_back(id, b.versions.begin()->first);
    all.newest.emplace_back(id, b.versions.rbegin()->first);
  }
  out.send({header_between(config_.job, config_.self, h.src), std::move(all)});
}

void replica::send_version(const header& h, const collect& c, effects& out) const {
  for (const auto& [id, b] : blocks_) {
    const auto at = h.version == any_version ? std::prev(b.versions.end()) : b.versions.find(h.version);
    if (at == b.versions.end()) continue;
    auto back = header_between(config_.job, config_.self, h.src);
    back.version = at->first;
    out.send({back, state{c.request, id, at->second.value, at->second.rule, at->second.updates}});
  }
}

role_status replica::status() const {
  role_status s;
  s.version = ~0ull;
  for (const auto& [id, b] : blocks_) s.version = std::min(s.version, b.versions.rbegin()->first);
  s.step = s.version = blocks_.empty() ? 0 : s.version;
  if (blocks_.empty()) s.wait(wait_kind::weights, "first values from " + (*config_.plan)[before_].name);
  return s;
}

}  // namespace troupe
