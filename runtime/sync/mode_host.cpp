#include "runtime/sync/mode_host.hpp"

#include <algorithm>
#include <exception>

#include "runtime/base/invariant.hpp"
#include "runtime/sync/shard_sync.hpp"

namespace troupe {
namespace {

// Returns true for bodies that the sync roles of one mode exchange. Gradients from stages and most
// messages of the coordinator have no mode epoch.
bool of_mode_epoch(const message& m) {
  return std::holds_alternative<push>(m) || std::holds_alternative<weights>(m) || std::holds_alternative<fetch>(m) ||
         std::holds_alternative<state>(m) || std::holds_alternative<ready>(m) || std::holds_alternative<user>(m) ||
         std::holds_alternative<norm_partials>(m) || std::holds_alternative<nonfinite_report>(m);
}

}  // namespace

mode_host::mode_host(sync_config c, const mode_registry& modes, const std::string& mode)
    : config_(std::move(c)), modes_(modes), mode_(modes.find(mode)), shard_((*config_.plan)[config_.self].does().owns_parameters) {
  const auto group = (*config_.plan)[config_.self].group;
  if (config_.continued && shard_)
    for (const auto& b : config_.plan->blocks) awaited_ += config_.plan->shard_of(b, group) == config_.self ? 1 : 0;
  if (awaited_ == 0) make();
}

// Stores a block with which the job continues or begins; makes the shard sync when all blocks have
// arrived.
void mode_host::take_block(const restore_state& s, time_point now, effects& out) {
  const auto& blocks = config_.plan->blocks;
  if (s.block >= blocks.size() || config_.plan->shard_of(blocks[s.block], (*config_.plan)[config_.self].group) != config_.self)
    return drop(drop_reason::misaddressed);
  if (s.value.count() != blocks[s.block].count || (!s.rule.empty() && s.rule.size() != config_.update->states().size()))
    return drop(drop_reason::malformed);
  if (!restored_.try_emplace(s.block, block_content{s.value, s.rule, s.updates}).second) return drop(drop_reason::repeated);
  invariant(restored_.size() <= awaited_, "a shard owns the blocks that it awaits");
  if (restored_.size() < awaited_) return;
  config_.inherited = std::make_shared<std::map<std::uint32_t, block_content>>(std::move(restored_));
  make();
  for (const auto& e : std::exchange(early_, {})) on(e, now, out);
}

// Answers `quiesce` with an empty inventory: the blocks are still in flight, so there is nothing to
// continue from.
void mode_host::answer_nothing(const header& h, const quiesce& q, effects& out) const {
  out.send({header_between(config_.job, config_.self, h.src), inventory{q.request, {}, {}}});
}

drop_counts mode_host::dropped() const {
  auto all = role::dropped();
  all += before_;
  if (sync_) all += sync_->dropped();
  return all;
}

void mode_host::make() {
  if (sync_) before_ += sync_->dropped();
  auto c = config_;
  if (!mode_->lockstep) c.histograms_every = 0;
  sync_ = shard_ ? mode_->make_shard(std::move(c)) : mode_->make_worker(std::move(c));
}

void mode_host::on(const envelope& e, time_point now, effects& out) {
  if (!sync_) {
    if (const auto* q = std::get_if<quiesce>(&e.body)) return answer_nothing(e.h, *q, out);
    const auto* s = std::get_if<restore_state>(&e.body);
    return s ? take_block(*s, now, out) : early_.push_back(e);
  }
  if (shard_ && config_.continued && std::holds_alternative<restore_state>(e.body)) return drop(drop_reason::repeated);
  if (const auto* a = std::get_if<adopt>(&e.body)) return take_adopt(e.h, *a, now, out);
  // A `flush` or `grant` that is repeated after the switch belongs to the previous mode.
  if ((of_mode_epoch(e.body) && e.h.src != config_.coordinator) || std::holds_alternative<flush>(e.body) ||
      std::holds_alternative<grant>(e.body)) {
    if (e.h.mode_epoch != mode_epoch_) {
      const auto ahead = static_cast<std::uint8_t>(e.h.mode_epoch - mode_epoch_);
      if (ahead < 128) {
        early_.push_back(e);
        return;
      }
      return drop(drop_reason::outdated);
    }
  }
  if (const auto* s = std::get_if<set_value>(&e.body)) {
    if (s->key == "train.dynamics.lr") config_.lr_changes.emplace_back(s->from, s->value);
    if (s->key == "train.dynamics.decay") config_.decay_changes.emplace_back(s->from, s->value);
  }
  if (const auto* w = std::get_if<want_histograms>(&e.body); w && w->every > 0 && e.h.src == config_.coordinator) {
    config_.histograms_every = w->every;
    if (!mode_->lockstep) return;  // the coordinator requests each one
  }
  hand_to_sync(e, now, out);
}

// Passes a message to the sync role, stamps the messages that it sends with the mode epoch, and
// notes which layers have been handed weights after a switch.
void mode_host::hand_to_sync(const envelope& e, time_point now, effects& out) {
  invariant(sync_ != nullptr, "the sync role exists once all blocks are here");
  const auto before = out.list().size();
  sync_->on(e, now, out);
  if (mode_epoch_ == 0 && adopting_ == 0) return;
  for (auto i = before; i < out.list().size(); ++i) {
    auto* s = std::get_if<send_effect>(&out.list()[i]);
    if (!s) continue;
    s->e.h.mode_epoch = mode_epoch_;
    const auto* w = std::get_if<layer_weights>(&s->e.body);
    if (w && adopting_ > 0 && w->layer < given_.size()) given_[w->layer] = true;
  }
  tell_adopted(out);
}

void mode_host::tell_adopted(effects& out) {
  if (adopting_ == 0 || !std::all_of(given_.begin(), given_.end(), [](bool g) { return g; })) return;
  auto h = header{};
  h.job = config_.job;
  h.src = config_.self;
  h.dst = config_.coordinator;
  h.step = adopting_ - 1;
  h.mode_epoch = mode_epoch_;
  adopting_ = 0;
  out.send({h, ready{ready::what_of::adopted}});
}

// header.step is the boundary.
void mode_host::take_adopt(const header& h, const adopt& a, time_point now, effects& out) {
  const auto* next = modes_.find(a.mode);
  const auto ahead = static_cast<std::uint8_t>(h.mode_epoch - mode_epoch_);
  if (!next) return drop(drop_reason::malformed);
  if (ahead == 0 || ahead >= 128) return drop(drop_reason::outdated);
  options given;
  try {
    given = options_from_text(a.options, next->specs);
  } catch (const std::exception&) {
    return drop(drop_reason::malformed);  // the coordinator checks options before it sends them
  }
  config_.first_step = h.step;
  config_.mode = std::move(given);
  mode_ = next;
  mode_epoch_ = h.mode_epoch;
  begin_epoch(h, now, out);
  tell_adopted(out);  // at once if the sync role gets no blocks (placed layers without parameters)
  for (const auto& e : std::exchange(early_, {})) on(e, now, out);
}

void mode_host::begin_epoch(const header& h, time_point now, effects& out) {
  if (shard_) {
    if (const auto* s = dynamic_cast<const shard_sync*>(sync_.get()))
      config_.inherited = std::make_shared<std::map<std::uint32_t, block_content>>(s->contents());
  } else {
    given_.assign(config_.graph->layers.size(), true);
    for (const auto& b : config_.plan->blocks)
      if (config_.plan->takes(config_.worker, b)) given_[config_.graph->params[b.param].layer] = false;
    adopting_ = h.step + 1;
  }
  make();
  if (shard_) {  // it fills its blocks and sends them
    envelope go;
    go.h = h;
    go.body = start{};
    hand_to_sync(go, now, out);
  }
}

role_status mode_host::status() const {
  if (sync_) return sync_->status();
  role_status s;
  s.wait(wait_kind::weights, std::to_string(awaited_ - restored_.size()) + " blocks of parameters");
  return s;
}

}  // namespace troupe
