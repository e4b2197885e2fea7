#include "runtime/sync/guarded.hpp"

#include <algorithm>
#include <memory>

#include "ops/finite.hpp"

namespace troupe {

guarded_shard::guarded_shard(sync_config c, clock_policy p)
    : clocked_shard(std::move(c), p), next_(config_.plan->groups.size(), config_.first_step) {
  std::set<role_id> with_blocks;
  for (const auto& b : config_.plan->blocks) with_blocks.insert(config_.plan->shard_of(b, group()));
  with_blocks.erase(config_.self);
  others_.assign(with_blocks.begin(), with_blocks.end());
}

void guarded_shard::update_block(shard_block& b, additions due, sum_ptr sum, std::uint32_t packets, std::uint64_t step,
                                 effects& out) {
  if (config_.max_skipped == 0) return take_sound(b, std::move(due), std::move(sum), packets, step, out);
  const clock_of at{applying(b), step};
  auto bad = std::make_shared<bool>(false);
  auto cost = cost_of(due);
  cost.kind = "look";
  cost.bytes += static_cast<double>(b.value.bytes());
  tasks_.run(
      [due = std::move(due), sum, bad](task_context& c) {
        run_additions(due, c.dev);
        look_for_not_finite(c.dev, (*sum)[0], [bad] { *bad = true; });
      },
      cost, [this, at, what = held_sum{&b, sum, packets}, bad](effects& more) { looked(at, what, *bad, more); }, out);
}

void guarded_shard::looked(clock_of at, held_sum what, bool bad, effects& out) {
  auto& r = rounds_[at];
  if (bad) r.bad.push_back(what.block->plan->id);
  r.held.push_back(std::move(what));
  if (r.held.size() < blocks_.list().size()) return;
  std::sort(r.bad.begin(), r.bad.end());  // tasks may finish in any order
  r.skips = r.skips || !r.bad.empty();
  r.notified.insert(config_.self);
  for (auto s : others_) {
    auto h = to(s);
    h.step = at.second;
    out.send({h, nonfinite_report{at.first, r.bad}});
  }
  if (!r.bad.empty()) tell_not_finite(at.first, r.bad, at.second, out);
  decide(at, out);
}

// A report that is repeated, that belongs to a decided clock, or that names blocks of another shard
// changes nothing. No shard can be two clocks ahead, since it cannot decide the clock between
// without this shard's report.
void guarded_shard::on_other(const envelope& e, effects& out) {
  const auto* f = std::get_if<nonfinite_report>(&e.body);
  if (!f || config_.max_skipped == 0) return drop(drop_reason::unexpected);
  if (f->group >= next_.size() || config_.plan->groups[f->group].server_group != group() ||
      std::find(others_.begin(), others_.end(), e.h.src) == others_.end())
    return drop(drop_reason::misaddressed);
  if (e.h.step < next_[f->group]) return drop(drop_reason::outdated);
  if (e.h.step > next_[f->group] + 1) return drop(drop_reason::unexpected);
  for (auto id : f->bad)
    if (id >= config_.plan->blocks.size() || config_.plan->shard_of(config_.plan->blocks[id], group()) != e.h.src)
      return drop(drop_reason::misaddressed);
  const clock_of at{f->group, e.h.step};
  auto& r = rounds_[at];
  if (!r.notified.insert(e.h.src).second) return drop(drop_reason::repeated);
  r.skips = r.skips || !f->bad.empty();
  decide(at, out);
}

void guarded_shard::decide(clock_of at, effects& out) {
  const auto found = rounds_.find(at);
  if (found->second.notified.size() < others_.size() + 1) return;
  auto r = std::move(found->second);
  rounds_.erase(found);
  next_[at.first] = at.second + 1;
  std::sort(r.held.begin(), r.held.end(), [](const auto& a, const auto& b) { return a.block->plan->id < b.block->plan->id; });
  for (auto& h : r.held) {
    if (!r.skips) {
      take_sound(*h.block, {}, std::move(h.sum), h.packets, at.second, out);
      continue;
    }
    blocks_.leave_out(*h.block);
    commit(*h.block, out);
  }
}

role_status guarded_shard::status() const {
  auto s = clocked_shard::status();
  for (const auto& [at, r] : rounds_)
    if (r.notified.count(config_.self) > 0)
      s.wait(wait_kind::answers, std::to_string(others_.size() + 1 - r.notified.size()) +
                                     " shards to check their gradients of step " + std::to_string(at.second));
  return s;
}

}  // namespace troupe
