#include "runtime/sync/finite_check.hpp"

#include <algorithm>

#include "ops/finite.hpp"

namespace troupe {

finite_check::finite_check(const shard_parts& p) : update_step(p) {
  std::set<role_id> with_blocks;
  for (const auto& b : p.plan().blocks) with_blocks.insert(p.plan().shard_of(b, p.group()));
  with_blocks.erase(p.config.self);
  others_.assign(with_blocks.begin(), with_blocks.end());
}

void finite_check::take(complete_gradient g, effects& out) {
  auto bad = std::make_shared<bool>(false);
  auto cost = cost_of(g.due);
  cost.kind = "look";
  cost.bytes += static_cast<double>(g.block->value.bytes());
  auto look = [due = std::move(g.due), sum = g.sum, bad](task_context& c) {
    run_additions(due, c.dev);
    look_for_not_finite(c.dev, (*sum)[0], [bad] { *bad = true; });
  };
  parts_.tasks.run(
      std::move(look), cost, [this, g, bad](effects& more) { looked(g, *bad, more); }, out);
}

void finite_check::looked(complete_gradient g, bool bad, effects& out) {
  const clock_of at{g.group, g.step};
  auto& r = rounds_[at];
  if (bad) r.bad.push_back(g.block->plan->id);
  r.held.push_back(std::move(g));
  if (r.held.size() < parts_.blocks.list().size()) return;
  std::sort(r.bad.begin(), r.bad.end());  // tasks may finish in any order
  r.skips = r.skips || !r.bad.empty();
  r.notified.insert(parts_.config.self);
  for (auto s : others_) {
    auto h = parts_.to(s);
    h.step = at.second;
    out.send({h, nonfinite_report{at.first, r.bad}});
  }
  if (!r.bad.empty()) tell_not_finite(parts_, at.first, r.bad, at.second, out);
  decide(at, out);
}

// A report that is repeated, that belongs to a decided clock, or that names blocks of another shard
// changes nothing. No shard can be two clocks ahead, since it cannot decide the clock between
// without this shard's report.
std::optional<drop_reason> finite_check::take_message(const envelope& e, effects& out) {
  const auto* f = std::get_if<nonfinite_report>(&e.body);
  if (!f) return drop_reason::unexpected;
  const auto& plan = parts_.plan();
  if (f->group >= plan.groups.size() || plan.groups[f->group].server_group != parts_.group() ||
      std::find(others_.begin(), others_.end(), e.h.src) == others_.end())
    return drop_reason::misaddressed;
  if (e.h.step < next_of(f->group)) return drop_reason::outdated;
  if (e.h.step > next_of(f->group) + 1) return drop_reason::unexpected;
  for (auto id : f->bad)
    if (id >= plan.blocks.size() || plan.shard_of(plan.blocks[id], parts_.group()) != e.h.src) return drop_reason::misaddressed;
  const clock_of at{f->group, e.h.step};
  auto& r = rounds_[at];
  if (!r.notified.insert(e.h.src).second) return drop_reason::repeated;
  r.skips = r.skips || !f->bad.empty();
  decide(at, out);
  return std::nullopt;
}

void finite_check::decide(clock_of at, effects& out) {
  const auto found = rounds_.find(at);
  if (found->second.notified.size() < others_.size() + 1) return;
  auto r = std::move(found->second);
  rounds_.erase(found);
  next_[at.first] = at.second + 1;
  std::sort(r.held.begin(), r.held.end(), [](const auto& a, const auto& b) { return a.block->plan->id < b.block->plan->id; });
  for (auto& g : r.held) {
    if (r.skips) g.sum.reset();
    g.known_finite = true;
    pass(std::move(g), out);
  }
}

void finite_check::describe(role_status& s) const {
  for (const auto& [at, r] : rounds_)
    if (r.notified.count(parts_.config.self) > 0)
      s.wait(wait_kind::answers, std::to_string(others_.size() + 1 - r.notified.size()) +
                                     " shards to check their gradients of step " + std::to_string(at.second));
}

}  // namespace troupe
