#include "runtime/sync/shard_sync.hpp"

#include <algorithm>
#include <cmath>

#include "ops/device.hpp"
#include "runtime/messages/fits.hpp"
#include "runtime/sync/compressing.hpp"
#include "runtime/sync/shard_histograms.hpp"

namespace troupe {

shard_sync::shard_sync(sync_config c, gives g, const update_list& steps)
    : config_(std::move(c)),
      blocks_(config_),
      update_(parts(), steps,
              [this](const complete_gradient& done, effects& out) {
                blocks_.updated(*done.block);
                on_updated(*done.block, out);
              }),
      gives_(g) {
  for (const auto& w : config_.plan->groups_of(group())) members_ += w.count;
  members_ += config_.plan->workers.size() - config_.plan->ranges.size();  // workers of placed layers (one server group)
}

std::map<std::uint32_t, block_content> shard_sync::contents() const {
  std::map<std::uint32_t, block_content> all;
  for (const auto& b : blocks_.list()) all[b.plan->id] = {b.value, b.rule.out() ? tensors{} : *b.rule, b.updates};
  return all;
}

// Recovery mode, after nodes have failed: only quiesce, collect, halt and
// on_message_while_quiesced() are handled. Returns true if the message was handled here.
bool shard_sync::answers_quiesced(const envelope& e, effects& out) {
  if (const auto* s = std::get_if<quiesce>(&e.body)) {
    quiesced_ = {e.h.src, s->request};
    const bool filled = std::all_of(blocks_.list().begin(), blocks_.list().end(), [](const auto& b) { return b.filled; });
    filled ? on_quiesce(*s, out) : say_whats_here(out);
    return true;
  }
  if (!quiesced_) return false;
  if (const auto* c = std::get_if<collect>(&e.body))
    blocks_.send_version(*c, e.h.src, e.h.version, out);
  else if (std::holds_alternative<halt>(e.body))
    out.stop();
  else
    on_message_while_quiesced(e, out);
  return true;
}

void shard_sync::say_whats_here(effects& out) const { out.send({to(quiesced_->first), blocks_.at_hand(quiesced_->second)}); }

void shard_sync::on(const envelope& e, time_point, effects& out) {
  if (answers_quiesced(e, out)) return;
  const bool filled = blocks_.list().empty() || blocks_.list().front().filled;
  if (!filled &&
      (std::holds_alternative<fetch>(e.body) || std::holds_alternative<push>(e.body) || std::holds_alternative<ready>(e.body) ||
       std::holds_alternative<collect>(e.body) || std::holds_alternative<want_histograms>(e.body)))
    return early_.push_back(e);
  std::visit(overloaded{
                 [&](const start&) { take_start(out); },
                 [&](const push& p) { take_push(e.h, p, out); },
                 [&](const fetch& f) { take_fetch(e.h, f, out); },
                 [&](const set_value& s) { apply_setting(config_, s); },
                 [&](const collect& c) {
                   blocks_.collect_at(c, e.h.src, e.h.version, out);
                   before_collect(out);
                 },
                 [&](const want_histograms& w) { take_wish(e.h, w, out); },
                 [&](const ready& r) { take_ready(e, r, out); },
                 [&](const finished& f) {
                   if (!tasks_.finished(f.token, out)) drop(drop_reason::unrequested);
                 },
                 [&](const state& s) { take_copy(e.h, s, out); },
                 [&](const halt&) { out.stop(); },
                 [&](const auto&) {
                   const auto why = update_.take_message(e, out);
                   why == drop_reason::unexpected ? on_other(e, out) : note(why);
                 },
             },
             e.body);
  blocks_.answer_collects(out);
  count_weights(parts(), out);
  check_flushed(out);
}

void shard_sync::take_start(effects& out) {
  if (std::exchange(started_, true)) return drop(drop_reason::repeated);  // filling again would undo training
  tasks_.run(
      blocks_.fill(), {0, 0, "fill"}, [this](effects& more) { filled(more); }, out);
}

// Sends the first values to the replicas and to the workers that use them.
void shard_sync::filled(effects& out) {
  blocks_.filled();
  for (auto& b : blocks_.list()) {
    b.filled = true;
    update_.filled(b, out);
  }
  on_filled(out);
  const auto& p = *config_.plan;
  const auto first_to = [&](role_id r, const shard_block& b) { give(r, b, out); };
  for (const auto& g : p.groups_of(group()))
    for (auto w = g.first; w < g.first + g.count; ++w)
      for (const auto& b : blocks_.list())
        for (auto r : b.plan->takers.empty() ? p.weights_to(*b.plan, {w, 1, {}, 0}) : std::vector<role_id>{}) first_to(r, b);
  for (const auto& b : blocks_.list())
    for (auto w : b.plan->takers) first_to(p.workers[w], b);
  for (const auto& waiting : std::exchange(early_, {})) on(waiting, {}, out);
}

void shard_sync::take_wish(const header& h, const want_histograms& w, effects& out) {
  if (h.src != config_.coordinator) return drop(drop_reason::misaddressed);
  if (w.every > 0) return void(config_.histograms_every = w.every);
  std::vector<bool> later;  // by position: counted by the task of an update
  for (auto& b : blocks_.list()) {
    const bool reached = h.version > 0 && b.version + (b.updating ? 1 : 0) >= h.version;
    later.push_back(!w.now && !reached && update_.counts_histograms());
    if (later.back()) b.wish = {h.step, h.version};
  }
  if (std::all_of(later.begin(), later.end(), [](bool l) { return l; })) return;
  blocks_.count_at(h.step, h.version, std::move(later));
  before_collect(out);
}

void shard_sync::give(role_id r, const shard_block& b, effects& out) const {
  auto h = to(r);
  h.version = b.version;
  if (gives_ == gives::weights)
    out.send({h, weights{b.plan->id, b.value}});
  else
    out.send({h, state{0, b.plan->id, b.value, *b.rule, b.updates}});
}

// Decodes an encoded sum in a task, then calls on_push().
void shard_sync::take_push(const header& h, const push& p, effects& out) {
  auto* b = blocks_.find(p.block);
  if (!b) return drop(drop_reason::misaddressed);
  const auto& codec = config_.graph->params[b->plan->param].codec;
  if (!codec) return holds(p.sum, b->plan->count, config_.type) ? on_push(h, p, *b, out) : drop(drop_reason::malformed);
  if (!may_be_encoded(codec, p.sum, b->plan->count, config_.type)) return drop(drop_reason::malformed);
  const auto d = std::make_shared<encoded_block>(codec, p.sum, b->plan->count, config_.type);
  tasks_.run([d](task_context& c) { d->decode(c.dev); }, d->cost(),
             [this, h, p, d](effects& more) {
               if (d->wrong) return drop(drop_reason::malformed);
               on_push(h, push{p.block, p.first, p.span, std::move(d->value), p.across, p.increment}, *blocks_.find(p.block), more);
             },
             out);
}

void shard_sync::take_fetch(const header& h, const fetch& f, effects& out) {
  auto* b = blocks_.find(f.block);
  const auto worker = worker_of(h.src);
  if (!b || worker >= workers()) return drop(drop_reason::misaddressed);
  on_fetch(h, f, *b, out);
}

void shard_sync::on_fetch(const header& h, const fetch&, shard_block& b, effects& out) {
  auto back = to(h.src);
  back.version = b.version;
  back.step = h.step;
  out.send({back, weights{b.plan->id, b.value}});
}

void shard_sync::take_ready(const envelope& e, const ready& r, effects& out) {
  const auto& h = e.h;
  if (r.what == ready::what_of::copied) return note(update_.take_message(e, out));
  if (r.what != ready::what_of::flushed) return drop(drop_reason::unexpected);
  if (worker_of(h.src) >= workers()) return drop(drop_reason::misaddressed);
  if (r.round < round_.number) return drop(drop_reason::outdated);
  if (r.round > round_.number || flushed_.empty()) {  // first message of a round
    round_.number = r.round;
    round_.boundary = h.step;
    flushed_.clear();
    notified_ = false;
  }
  flushed_.insert(h.src);
}

void shard_sync::check_flushed(effects& out) {
  if (flushed_.empty() || flushed_.size() < members_) return;
  if (!std::exchange(notified_, true)) on_all_flushed(round_.boundary, out);
  if (!update_.quiet() || !quiet(round_.boundary)) return;
  flushed_.clear();
  contributed_.clear();
  auto h = to(config_.coordinator);
  h.step = round_.boundary;
  out.send({h, ready{ready::what_of::flushed, round_.number++}});  // later messages of this round are outdated
}

void shard_sync::take_copy(const header& h, const state& s, effects& out) {
  const auto* b = blocks_.find(s.block);
  if (worker_of(h.src) >= workers() || !b) return drop(drop_reason::misaddressed);
  if (!holds(s.value, b->plan->count, config_.type) || s.rule.size() != config_.update->states().size() ||
      !all_hold(s.rule, b->plan->count, config_.type) || !std::isfinite(s.mass) || s.mass < 0)
    return drop(drop_reason::malformed);
  on_copy(h, s, out);
}

void shard_sync::on_copy(const header& h, const state& s, effects&) {
  const auto worker = worker_of(h.src);
  auto& round = contributed_at_[{s.block, worker}];
  if (s.round < std::max(round_.number, round)) return drop(drop_reason::outdated);
  round = s.round;
  contributed_[s.block][worker] = s;
}

role_status shard_sync::status() const {
  role_status s;
  s.version = s.step = blocks_.oldest();
  s.in_flight = static_cast<std::uint32_t>(tasks_.size());
  if (!flushed_.empty()) s.wait(wait_kind::answers, std::to_string(members_ - flushed_.size()) + " workers to flush");
  update_.describe(s);
  return s;
}

void fold_copies(const shard_parts& p, const worker_copies& all, bool mean_states, bool mean_values, effects& out) {
  const auto states_of_rule = p.config.update->states().size();
  for (auto& b : p.blocks.list()) {
    const auto at = all.find(b.plan->id);
    if (at == all.end() || at->second.empty()) continue;
    const auto& from = at->second;
    double total = 0;
    for (const auto& [worker, c] : from) {
      total += c.mass;
      b.updates = std::max(b.updates, c.updates);
    }
    const auto copies = std::make_shared<std::map<std::uint32_t, state>>(from);
    if (total == 0) {  // all mass is in flight between workers: take the plain mean
      for (auto& [worker, c] : *copies) c.mass = 1;
      total = static_cast<double>(copies->size());
    }
    // Uses new tensors: an update of the block may still be running.
    const auto value = std::make_shared<tensor>(tensor::declare({b.plan->count}, p.config.type));
    const auto states = std::make_shared<tensors>(states_of_rule, tensor::declare({b.plan->count}, p.config.type));
    const auto cost = static_cast<double>(value->bytes() * from.size() * (1 + states_of_rule));
    p.tasks.run(
        [value, states, copies, total, mean_states, mean_values,
         frozen = p.config.graph->params[b.plan->param].frozen](task_context& c) {
          const auto fold = [&](tensor& to, auto part_of) {
            to.back(c.dev);
            if (frozen) return c.dev.copy(part_of(copies->begin()->second), to);  // all copies are equal
            c.dev.fill(0, to);
            for (const auto& [worker, copy] : *copies) c.dev.axpy(copy.mass / total, part_of(copy), to);
          };
          if (mean_values) fold(*value, [](const state& s) { return s.value; });
          for (std::size_t k = 0; mean_states && k < states->size(); ++k)
            fold((*states)[k], [k](const state& s) { return s.rule.at(k); });
        },
        {0, cost, "mean"},
        [&b, value, states, mean_states, mean_values](effects&) {
          if (mean_values) b.value = *value;
          if (mean_states) *b.rule = *states;
        },
        out);
  }
}

}  // namespace troupe
