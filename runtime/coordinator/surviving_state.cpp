#include "runtime/coordinator/surviving_state.hpp"

#include <algorithm>

namespace troupe {
namespace {

std::vector<role_id> group_of(const job_plan& p, std::uint32_t group) {
  std::vector<role_id> list;
  for (auto s : p.shards)
    if (p[s].group == group) list.push_back(s);
  return list;
}

// A shard of the group whose blocks are lost with all their copies; no_role if there is none.
role_id lost_of(const job_plan& p, std::uint32_t group, const std::set<std::string>& lost) {
  const auto gone = [&](role_id r) { return lost.contains(p.nodes[p[r].node].name); };
  for (auto s : group_of(p, group)) {
    auto all = p.copies_of(s);
    all.push_back(s);
    if (std::all_of(all.begin(), all.end(), gone)) return s;
  }
  return no_role;
}

// The first group with all its blocks; server_groups if there is none.
std::uint32_t whole_group(const job_plan& p, const std::set<std::string>& lost) {
  std::uint32_t g = 0;
  while (g < p.server_groups && lost_of(p, g, lost) != no_role) ++g;
  return g;
}

}  // namespace

expected<void> check_survivors(const job_plan& p, const model_graph& g, survivor_rule left, const std::set<std::string>& lost) {
  if (left == survivor_rule::nothing) return unexpected(error("the mode does not support recovery without a checkpoint"));
  if (p.server_groups > 1 && left == survivor_rule::versions) return unexpected(error("the job has several server groups"));
  if (p.rule != weight_rule::drain) return unexpected(error("packets use weights of several steps"));
  if (g.carries()) return unexpected(error("layers carry state from step to step"));
  if (whole_group(p, lost) < p.server_groups) return {};
  const auto& s = p[lost_of(p, 0, lost)];
  return unexpected(error(s.name + ", whose parameters have no surviving copy, was on node " + p.nodes[s.node].name));
}

std::vector<role_id> surviving_state::holders(role_id shard) const {
  std::vector<role_id> list{shard};
  for (auto r : plan_->copies_of(shard)) list.push_back(r);
  return list;
}

void surviving_state::begin(const std::set<std::string>& lost) {
  ++request_;
  asked_.clear();
  answers_.clear();
  shards_ = group_of(*plan_, whole_group(*plan_, lost));
  for (auto s : shards_)
    for (auto r : holders(s))
      if (!lost.contains(plan_->nodes[(*plan_)[r].node].name)) asked_.push_back(r);
}

bool surviving_state::take(role_id from, const inventory& what) {
  if (what.request != request_ || std::find(asked_.begin(), asked_.end(), from) == asked_.end()) return false;
  if (what.least.size() != what.newest.size() || answers_.contains(from)) return false;
  auto& mine = answers_[from];
  for (std::size_t i = 0; i < what.newest.size(); ++i) mine[what.newest[i].first] = {what.least[i].second, what.newest[i].second};
  return missing() == 0;
}

// Returns true if `h` has all blocks of the shard.
bool surviving_state::whole(role_id shard, const have& h) const {
  return std::all_of(plan_->blocks.begin(), plan_->blocks.end(),
                     [&](const param_block& b) { return b.shard != shard || h.contains(b.id); });
}

expected<surviving_state::found> surviving_state::find(survivor_rule left, std::uint64_t completed) const {
  found f;
  f.version = completed;
  // For each shard: the holder whose oldest block is the newest.
  for (auto s : shards_) {
    std::optional<std::uint64_t> best;
    for (auto r : holders(s)) {
      const auto at = answers_.find(r);
      if (at == answers_.end() || !whole(s, at->second)) continue;
      std::uint64_t oldest = ~0ull;
      for (const auto& [block, versions] : at->second) oldest = std::min(oldest, versions.newest);
      if (!best || oldest > *best) {
        if (best) f.from.pop_back();
        best = oldest;
        f.from.push_back(r);
      }
    }
    if (!best) return unexpected(error((*plan_)[s].name + " has not received its parameters yet"));
    f.version = std::min(f.version, *best);
  }
  if (left == survivor_rule::newest) {
    f.version = any_version;
    return f;
  }
  for (std::size_t i = 0; i < shards_.size(); ++i)
    for (const auto& [block, versions] : answers_.at(f.from[i]))
      if (versions.least > f.version)
        return unexpected(error((*plan_)[f.from[i]].name + " no longer has version " + std::to_string(f.version) + ": it is at " +
                                std::to_string(versions.newest)));
  return f;
}

}  // namespace troupe
