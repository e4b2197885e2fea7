#include "runtime/sync/update_steps.hpp"

#include <algorithm>

#include "runtime/base/invariant.hpp"
#include "runtime/sync/shard_histograms.hpp"

namespace troupe {

update_steps::update_steps(const shard_parts& p, const update_list& list, update_step::sink end) {
  for (auto make : list)
    if (auto step = make(p)) steps_.push_back(std::move(step));
  first_ = std::move(end);
  for (auto s = steps_.rbegin(); s != steps_.rend(); ++s) {
    (*s)->connect(std::move(first_));
    first_ = [step = s->get()](complete_gradient g, effects& out) { step->take(std::move(g), out); };
  }
}

std::optional<drop_reason> update_steps::take_message(const envelope& e, effects& out) {
  for (const auto& s : steps_)
    if (const auto why = s->take_message(e, out); why != drop_reason::unexpected) return why;
  return drop_reason::unexpected;
}

void update_steps::filled(const shard_block& b, effects& out) {
  for (const auto& s : steps_) s->filled(b, out);
}

bool update_steps::quiet() const {
  return std::all_of(steps_.begin(), steps_.end(), [](const auto& s) { return s->quiet(); });
}

bool update_steps::counts_histograms() const {
  return std::any_of(steps_.begin(), steps_.end(), [](const auto& s) { return s->counts_histograms(); });
}

void update_steps::describe(role_status& s) const {
  for (const auto& step : steps_) step->describe(s);
}

// --- apply_rule

void apply_rule::take(complete_gradient g, effects& out) {
  if (!g.sum) {
    parts_.blocks.leave_out(*g.block);
    return pass(std::move(g), out);
  }
  auto [work, cost] =
      parts_.blocks.update(*g.block, std::move(g.due), std::move(g.sum), g.packets, g.clip, g.step, !g.known_finite);
  parts_.tasks.run(
      std::move(work), cost, [this, g](effects& more) { applied(g, more); }, out);
}

void apply_rule::applied(complete_gradient g, effects& out) {
  auto& b = *g.block;
  parts_.blocks.take_back(b);
  if (b.next->not_finite) {
    tell_not_finite(parts_, 0, {b.plan->id}, g.step, out);
    if (parts_.config.max_skipped == 0) return;  // the job ends; this version has not been sent to any role
    parts_.blocks.leave_out(b);
  } else if (const auto counted = std::exchange(b.next->histograms, nullptr)) {
    if (b.wish && b.wish->step == counted->step) b.wish.reset();
    tell_histograms(parts_, counted, out);
  }
  pass(std::move(g), out);
}

void tell_not_finite(const shard_parts& p, std::uint32_t worker_group, std::vector<std::uint32_t> blocks, std::uint64_t step,
                     effects& out) {
  auto h = p.to(p.config.coordinator);
  h.step = step;
  out.send({h, nonfinite_report{worker_group, std::move(blocks)}});
}

// --- replicate

replicate::replicate(const shard_parts& p) : update_step(p) {
  const auto copies = p.plan().copies_of(p.config.self);
  if (!copies.empty()) first_ = copies.front();
}

void replicate::take(complete_gradient g, effects& out) {
  if (first_ == no_role) return pass(std::move(g), out);
  ++waiting_;
  parts_.blocks.send_copy(*g.block, first_, out);
}

std::optional<drop_reason> replicate::take_message(const envelope& e, effects& out) {
  const auto* r = std::get_if<ready>(&e.body);
  if (!r || r->what != ready::what_of::copied) return drop_reason::unexpected;
  auto* b = parts_.blocks.find(r->block);
  if (e.h.src != first_ || !b) return drop_reason::misaddressed;
  if (!b->next && e.h.version == b->version) return std::nullopt;  // of the first values, which nothing waits for
  if (!b->next || b->next.out() || e.h.version != b->version + 1) return drop_reason::unrequested;
  invariant(waiting_ > 0, "a replica confirms an update that waits for it");
  --waiting_;
  pass({.block = b}, out);
  return std::nullopt;
}

void replicate::filled(const shard_block& b, effects& out) {
  if (first_ != no_role) parts_.blocks.send_copy(b, first_, out);
}

}  // namespace troupe
