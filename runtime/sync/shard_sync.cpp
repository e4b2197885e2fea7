#include "runtime/sync/shard_sync.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ops/device.hpp"
#include "runtime/base/invariant.hpp"
#include "runtime/messages/fits.hpp"
#include "runtime/sync/compressing.hpp"

namespace troupe {

shard_sync::shard_sync(sync_config c, gives g) : config_(std::move(c)), blocks_(config_), gives_(g) {
  for (const auto& w : config_.plan->groups)
    if (w.server_group == group()) members_ += w.count;
  const auto copies = config_.plan->copies_of(config_.self);
  if (!copies.empty()) copies_.first = copies.front();
  members_ += config_.plan->workers.size() - config_.plan->ranges.size();  // workers of placed layers (one server group)
}

std::uint32_t shard_sync::worker_of(role_id r) const {
  if (index_of(r) >= config_.plan->roles.size()) return workers();
  const auto& p = (*config_.plan)[r];
  return p.does().adds != role_sums::none ? p.worker : workers();
}

std::map<std::uint32_t, block_content> shard_sync::contents() const {
  std::map<std::uint32_t, block_content> all;
  for (const auto& b : blocks_.list()) all[b.plan->id] = {b.value, b.rule, b.updates};
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
                 [&](const start&) {
                   if (std::exchange(started_, true)) return drop(drop_reason::repeated);  // filling again would undo training
                   tasks_.run(
                       blocks_.fill(), {0, 0, "fill"},
                       [this](effects& more) {
                         blocks_.filled();
                         for (auto& b : blocks_.list()) {
                           b.filled = true;
                           if (copies_.first != no_role) blocks_.send_copy(b, copies_.first, more);
                         }
                         on_filled(more);
                         const auto& p = *config_.plan;
                         const auto first_to = [&](role_id r, const shard_block& b) {
                           give(r, b, b.version, 0, b.version, 1, more);
                         };
                         for (const auto& g : p.groups)
                           for (auto w = g.first; g.server_group == group() && w < g.first + g.count; ++w)
                             for (const auto& b : blocks_.list())
                               for (auto r : b.plan->takers.empty() ? p.weights_to(*b.plan, {w, 1, {}, 0}) : std::vector<role_id>{})
                                 first_to(r, b);
                         for (const auto& b : blocks_.list())
                           for (auto w : b.plan->takers) first_to(p.workers[w], b);
                         for (const auto& waiting : std::exchange(early_, {})) on(waiting, {}, more);
                       },
                       out);
                 },
                 [&](const push& p) { take_push(e.h, p, out); },
                 [&](const fetch& f) { take_fetch(e.h, f, out); },
                 [&](const set_value& s) { apply_setting(config_, s); },
                 [&](const collect& c) {
                   blocks_.collect_at(c, e.h.src, e.h.version, out);
                   before_collect(out);
                 },
                 [&](const want_histograms& w) { take_wish(e.h, w, out); },
                 [&](const ready& r) { take_ready(e.h, r, out); },
                 [&](const finished& f) {
                   if (!tasks_.finished(f.token, out)) drop(drop_reason::unrequested);
                 },
                 [&](const state& s) { take_contribution(e.h, s, out); },
                 [&](const halt&) { out.stop(); },
                 [&](const auto&) { on_other(e, out); },
             },
             e.body);
  blocks_.answer_collects(out);
  count_weights(out);
  check_flushed(out);
}

// --- histograms

void shard_sync::take_wish(const header& h, const want_histograms& w, effects& out) {
  if (h.src != config_.coordinator) return drop(drop_reason::misaddressed);
  if (w.every > 0) return void(config_.histograms_every = w.every);
  std::vector<bool> later;  // by position: counted by the task of an update
  for (auto& b : blocks_.list()) {
    const bool reached = h.version > 0 && b.version + (b.updating ? 1 : 0) >= h.version;
    later.push_back(!w.now && !reached && updates_by_gradients());
    if (later.back()) b.wish = {h.step, h.version};
  }
  if (std::all_of(later.begin(), later.end(), [](bool l) { return l; })) return;
  blocks_.count_at(h.step, h.version, std::move(later));
  before_collect(out);
}

void shard_sync::count_weights(effects& out) {
  for (auto& b : blocks_.take_countable()) {
    auto counted = std::make_shared<block_histograms>();
    counted->block = b.block;
    counted->step = b.step;
    counted->version = b.version;
    const auto bytes = static_cast<double>(b.value.bytes());
    tasks_.run([value = std::move(b.value), counted](task_context& c) { counted->weight.take(c.dev, value); },
               {0, bytes, "histogram"}, [this, counted](effects& more) { tell_histograms(counted, more); }, out);
  }
}

// Sends the histograms of a block, if it has values.
void shard_sync::tell_histograms(std::shared_ptr<block_histograms> counted, effects& out) {
  if (counted->owes()) {
    tasks_.run([counted](task_context&) { counted->finish(); }, {0, 0, "histogram"},
               [this, counted](effects& more) { tell_histograms(counted, more); }, out);
    return;
  }
  if (!counted->weight.result()) return;
  auto h = to(config_.coordinator);
  h.step = counted->step;
  h.version = counted->version;
  histogram what{counted->block, *counted->weight.result(), {}};
  if (const auto& g = counted->gradient.result()) what.gradient.push_back(*g);
  out.send({h, std::move(what)});
}

void shard_sync::give(role_id r, const shard_block& b, std::uint64_t version, std::uint16_t flags, std::uint64_t wanted,
                      std::uint32_t answers, effects& out) const {
  auto h = to(r);
  h.version = version;
  h.flags = flags;
  h.packets = answers;
  if (gives_ == gives::weights) {
    out.send({h, weights{b.plan->id, b.value, wanted}});
  } else {
    out.send({h, state{b.updates, b.plan->id, b.value, b.rule, wanted}});
  }
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
               on_push(h, push{p.block, p.first, p.span, std::move(d->value)}, *blocks_.find(p.block), more);
             },
             out);
}

void shard_sync::take_fetch(const header& h, const fetch& f, effects& out) {
  auto* b = blocks_.find(f.block);
  const auto worker = worker_of(h.src);
  if (!b || worker >= workers()) return drop(drop_reason::misaddressed);
  if (!f.join) return on_fetch(h, f, *b, out);
  on_join(h, *b, out);
  if (b == &blocks_.list().front()) on_rejoined(worker, out);
}

void shard_sync::answer_join(const header& h, shard_block& block, effects& out) const {
  const auto* b = &block;
  const auto worker = worker_of(h.src);
  const auto wanted = wanted_from(worker, *b), version = version_for(worker, *b);
  if (config_.retains_for_replay) {  // packets in flight may have used any of these versions
    const auto answers = static_cast<std::uint32_t>(b->earlier.size()) + 1;
    for (const auto& [older, value] : b->earlier) {
      auto back = to(h.src);
      back.version = older;
      back.flags = flag_join;
      back.packets = answers;
      out.send({back, weights{b->plan->id, value, wanted}});
    }
    return give(h.src, *b, version, flag_join, wanted, answers, out);
  }
  const bool both = !b->past.empty() && gives_ == gives::weights && version > config_.first_step;
  if (both) {  // a sibling block may still be one version behind
    auto back = to(h.src);
    back.version = version - 1;
    back.flags = flag_join;
    back.packets = 2;
    out.send({back, weights{b->plan->id, b->past.front().value, wanted}});
  }
  give(h.src, *b, version, flag_join, wanted, both ? 2 : 1, out);
}

void shard_sync::on_fetch(const header& h, const fetch&, shard_block& b, effects& out) {
  auto back = to(h.src);
  back.version = b.version;
  back.step = h.step;
  out.send({back, weights{b.plan->id, b.value}});
}

void shard_sync::run_update(shard_block& b, additions due, sum_ptr sum, std::uint32_t packets, double clip, std::uint64_t step,
                            effects& out) {
  auto [work, cost] = blocks_.update(b, std::move(due), std::move(sum), packets, clip, step, !looked_at());
  tasks_.run(
      std::move(work), cost,
      [this, &b, step](effects& more) {
        if (b.next->not_finite) {
          tell_not_finite(0, {b.plan->id}, step, more);
          if (config_.max_skipped == 0) return;  // the job ends; this version has not been sent to any role
          blocks_.leave_out(b);
        } else if (const auto counted = std::exchange(b.next->histograms, nullptr)) {
          if (b.wish && b.wish->step == counted->step) b.wish.reset();
          tell_histograms(counted, more);
        }
        commit(b, more);
      },
      out);
}

void shard_sync::tell_not_finite(std::uint32_t of_group, std::vector<std::uint32_t> blocks, std::uint64_t step,
                                 effects& out) const {
  auto h = to(config_.coordinator);
  h.step = step;
  out.send({h, nonfinite_report{of_group, std::move(blocks)}});
}

void shard_sync::commit(shard_block& b, effects& out) {
  if (copies_.first != no_role) {
    ++copies_.committing;
    return blocks_.send_copy(b, copies_.first, out);
  }
  blocks_.updated(b);
  on_updated(b, out);
}

// A replica acknowledges an update; header.packet is the block.
void shard_sync::copied(const header& h, effects& out) {
  auto* b = blocks_.find(h.packet);
  if (h.src != copies_.first || !b) return drop(drop_reason::misaddressed);
  if (!b->next && h.version == b->version) return;  // of the first values, which nothing waits for
  if (!b->next || h.version != b->version + 1) return drop(drop_reason::unrequested);
  invariant(copies_.committing > 0, "a replica confirms an update that waits for it");
  --copies_.committing;
  blocks_.updated(*b);
  on_updated(*b, out);
}

void shard_sync::take_ready(const header& h, const ready& r, effects& out) {
  if (r.what == ready::what_of::copied) return copied(h, out);
  if (r.what != ready::what_of::flushed) return drop(drop_reason::unexpected);
  if (worker_of(h.src) >= workers()) return drop(drop_reason::misaddressed);
  const auto round = static_cast<std::uint64_t>(h.id);
  if (round < round_.number) return drop(drop_reason::outdated);
  if (round > round_.number || flushed_.empty()) {  // first message of a round
    round_.number = round;
    round_.boundary = h.step;
    flushed_.clear();
    notified_ = false;
  }
  flushed_.insert(h.src);
}

void shard_sync::check_flushed(effects& out) {
  if (flushed_.empty() || flushed_.size() < members_) return;
  if (!std::exchange(notified_, true)) on_all_flushed(round_.boundary, out);
  if (copies_.committing > 0 || !quiet(round_.boundary)) return;
  flushed_.clear();
  contributed_.clear();
  auto h = to(config_.coordinator);
  h.id = msg_id{round_.number++};  // later messages of this round are outdated
  h.step = round_.boundary;
  out.send({h, ready{ready::what_of::flushed}});
}

// header.version has the bits of the mass: the weight of this worker's copy in the mean.
void shard_sync::take_contribution(const header& h, const state& s, effects& out) {
  const auto worker = worker_of(h.src);
  const auto* b = blocks_.find(s.block);
  const auto mass = std::bit_cast<double>(h.version);
  if (worker >= workers() || !b) return drop(drop_reason::misaddressed);
  if (!holds(s.value, b->plan->count, config_.type) || s.rule.size() != b->rule.size() ||
      !all_hold(s.rule, b->plan->count, config_.type) || !std::isfinite(mass) || mass < 0)
    return drop(drop_reason::malformed);
  if (on_copy(h, s, out)) return;
  auto& round = contributed_at_[{s.block, worker}];
  if (static_cast<std::uint64_t>(h.id) < std::max(round_.number, round)) return drop(drop_reason::outdated);
  round = static_cast<std::uint64_t>(h.id);
  contributed_[s.block][worker] = {mass, s};
}

// Computes the means in worker order, so they do not depend on the order of arrival.
void shard_sync::fold(const contributions& all, bool mean_states, bool mean_values, effects& out) {
  for (auto& b : blocks_.list()) {
    const auto at = all.find(b.plan->id);
    if (at == all.end() || at->second.empty()) continue;
    const auto& from = at->second;
    double total = 0;
    for (const auto& [worker, c] : from) {
      total += c.first;
      b.updates = std::max(b.updates, c.second.request);
    }
    const auto copies = std::make_shared<std::map<std::uint32_t, std::pair<double, state>>>(from);
    if (total == 0) {  // all mass is in flight between workers: take the plain mean
      for (auto& [worker, c] : *copies) c.first = 1;
      total = static_cast<double>(copies->size());
    }
    // Uses new tensors: an update of the block may still be running.
    const auto value = std::make_shared<tensor>(tensor::declare({b.plan->count}, config_.type));
    const auto states = std::make_shared<tensors>(b.rule.size(), tensor::declare({b.plan->count}, config_.type));
    const auto cost = static_cast<double>(value->bytes() * from.size() * (1 + b.rule.size()));
    tasks_.run(
        [value, states, copies, total, mean_states, mean_values](task_context& c) {
          const auto fold = [&](tensor& to, auto part_of) {
            to.back(c.dev);
            c.dev.fill(0, to);
            for (const auto& [worker, copy] : *copies) c.dev.axpy(copy.first / total, part_of(copy.second), to);
          };
          if (mean_values) fold(*value, [](const state& s) { return s.value; });
          for (std::size_t k = 0; mean_states && k < states->size(); ++k)
            fold((*states)[k], [k](const state& s) { return s.rule.at(k); });
        },
        {0, cost, "mean"},
        [&b, value, states, mean_states, mean_values](effects&) {
          if (mean_values) b.value = *value;
          if (mean_states) b.rule = *states;
        },
        out);
  }
}

role_status shard_sync::status() const {
  role_status s;
  s.version = s.step = blocks_.oldest();
  s.in_flight = static_cast<std::uint32_t>(tasks_.size());
  if (!flushed_.empty()) s.wait(wait_kind::answers, std::to_string(members_ - flushed_.size()) + " workers to flush");
  return s;
}

}  // namespace troupe
