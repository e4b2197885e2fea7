#include "runtime/sync/gradient_clocks.hpp"

#include <algorithm>

#include "runtime/base/invariant.hpp"

namespace troupe {

gradient_clocks::gradient_clocks(const shard_parts& p, const clock_policy& policy, update_steps& update)
    : parts_(p), policy_(policy), update_(update), clocks_(p.plan().blocks.size()) {
  // Blocks may be this many versions apart. More than 8 versions are not worth their memory; after
  // a node failure such a job may have to return to its checkpoint.
  parts_.blocks.remember(std::min<std::uint64_t>(policy_.staleness, 7) + 1);
  const auto served = p.plan().groups_of(parts_.group());
  first_group_ = static_cast<std::uint32_t>(served.data() - p.plan().groups.data());
  for (auto& b : parts_.blocks.list()) {
    auto& clock = clocks_[b.plan->id];
    clock.groups.resize(served.size());
    for (auto& g : clock.groups) g.next = g.applied = p.config.first_step;
  }
}

std::optional<drop_reason> gradient_clocks::take_push(const header& h, const push& p, shard_block& b, effects& out) {
  const auto worker = worker_of(parts_.plan(), h.src);
  if (worker >= parts_.plan().workers.size()) return drop_reason::misaddressed;
  const auto g = parts_.plan().group_index(worker);
  if (!serves(g)) return drop_reason::misaddressed;
  const auto packets = group_at(g).range.count;
  auto& clock = clock_of(b, g);
  // A push for a step whose weights no worker can have yet.
  const auto ahead = parts_.plan().delay_of(parts_.config.graph->params[b.plan->param].layer);
  const bool early = h.step > clock.next + ahead && policy_.staleness == 0;
  if (!well_formed({p.first, p.span}, packets)) return drop_reason::malformed;
  if (h.step < clock.next) return drop_reason::outdated;
  if (early) return drop_reason::unexpected;
  auto& tree = clock.trees.try_emplace(h.step, packets).first->second;
  additions due;
  const auto [node, fresh] = tree.add({p.first, p.span}, std::make_shared<tensors>(1, p.sum), {},
                                      [&](sum_ptr x, sum_ptr y) { return plan_addition(x, y, due); });
  if (!fresh) return drop_reason::repeated;
  if (node == root_of(packets)) note_ready(b, g);
  if (node == root_of(packets) && h.step == clock.next && !b.updating) {
    start(b, g, std::move(due), out);
    return std::nullopt;
  }
  if (due.empty()) return std::nullopt;
  const auto cost = cost_of(due);
  parts_.tasks.run([due = std::move(due)](task_context& c) { run_additions(due, c.dev); }, cost, [](effects&) {}, out);
  return std::nullopt;
}

void gradient_clocks::note_ready(const shard_block& b, std::uint32_t g) {
  auto& clock = clock_of(b, g);
  const auto tree = clock.trees.find(clock.next);
  if (tree != clock.trees.end() && tree->second.find(root_of(group_at(g).range.count)))
    clocks_[b.plan->id].ready.insert(g);
  else
    clocks_[b.plan->id].ready.erase(g);
}

// Starts the update with the next clock of group `g`. Returns false if not all its gradients have
// arrived.
bool gradient_clocks::start(shard_block& b, std::uint32_t g, additions due, effects& out) {
  auto& clock = clock_of(b, g);
  const auto tree = clock.trees.find(clock.next);
  if (tree == clock.trees.end()) return false;
  const auto packets = group_at(g).range.count;
  const auto* root = tree->second.find(root_of(packets));
  if (!root) return false;
  auto sum = *root;
  clock.trees.erase(tree);
  clocks_[b.plan->id].applying = g;
  const auto step = clock.next++;
  note_ready(b, g);
  b.updating = true;
  update_.take({&b, std::move(due), std::move(sum), packets, step, g}, out);
  return true;
}

// The worker groups take turns.
bool gradient_clocks::start_next(shard_block& b, effects& out) {
  const auto& clock = clocks_[b.plan->id];
  if (clock.ready.empty()) return false;
  auto next = clock.ready.upper_bound(clock.applying);
  if (next == clock.ready.end()) next = clock.ready.begin();
  return start(b, *next, {}, out);
}

void gradient_clocks::updated(shard_block& b, effects& out) {
  const auto g = clocks_[b.plan->id].applying;
  auto& clock = clock_of(b, g);
  invariant(clock.applied < clock.next, "a clock is applied after it was begun");
  ++clock.applied;
  if (policy_.pull) {
    answer_waiting(b, g, out);
  } else {
    for (auto r : parts_.plan().weights_to(*b.plan, group_at(g))) give(r, b, g, 0, out);
  }
}

void gradient_clocks::give(role_id r, const shard_block& b, std::uint32_t g, std::uint64_t step, effects& out) const {
  auto h = parts_.to(r);
  h.version = clock_of(b, g).applied;
  h.step = step;
  out.send({h, weights{b.plan->id, b.value}});
}

std::optional<drop_reason> gradient_clocks::take_fetch(const header& h, shard_block& b, effects& out) {
  const auto g = parts_.plan().group_index(worker_of(parts_.plan(), h.src));
  if (!serves(g)) return drop_reason::misaddressed;
  auto& asked = clocks_[b.plan->id].asked;
  const auto later = asked.lower_bound({h.src, h.step});
  if (later != asked.end() && later->first == h.src) return drop_reason::repeated;
  if (clock_of(b, g).applied >= h.version) {
    give(h.src, b, g, h.step, out);
    return std::nullopt;
  }
  asked.emplace(h.src, h.step);
  clock_of(b, g).waiting.push_back(h);
  return std::nullopt;
}

// A fetch is answered once the slowest worker's clock has reached the requested version.
void gradient_clocks::answer_waiting(shard_block& b, std::uint32_t g, effects& out) {
  auto& clock = clock_of(b, g);
  std::erase_if(clock.waiting, [&](const header& h) {
    if (clock.applied < h.version) return false;
    clocks_[b.plan->id].asked.erase({h.src, h.step});
    give(h.src, b, g, h.step, out);
    return true;
  });
}

std::uint64_t gradient_clocks::wanted_from(std::uint32_t worker, const shard_block& b) const {
  const auto g = parts_.plan().group_index(worker);
  if (!serves(g)) return parts_.config.first_step;
  const auto& clock = clock_of(b, g);
  if (policy_.work_units) return clock.next;  // any worker may be dealt any packet
  const auto mine = parts_.plan().range_of(worker), all = group_at(g).range;
  const auto nodes = cover(mine.first - all.first, mine.count, all.count);
  auto step = clock.next;
  for (auto tree = clock.trees.find(step); tree != clock.trees.end(); tree = clock.trees.find(++step))
    if (!std::all_of(nodes.begin(), nodes.end(), [&](tree_node n) { return tree->second.has(n); })) break;
  return step;
}

bool gradient_clocks::all_applied(std::uint64_t step) const {
  for (const auto& b : parts_.blocks.list())
    for (const auto& g : clocks_[b.plan->id].groups)
      if (g.applied != step) return false;
  return true;
}

void gradient_clocks::describe(role_status& s) const {
  for (const auto& c : clocks_)
    for (const auto& g : c.groups)
      for (const auto& [step, tree] : g.trees) s.queued += static_cast<std::uint32_t>(tree.size());
  if (s.waits_for.empty()) s.wait(wait_kind::gradients, "gradients of step " + std::to_string(s.step) + missing_workers());
}

// The workers whose gradients block 0 of this shard lacks, if others have sent theirs: " from
// worker2".
std::string gradient_clocks::missing_workers() const {
  constexpr std::size_t named = 4;
  if (policy_.work_units || parts_.blocks.list().empty()) return {};
  const auto& b = parts_.blocks.list().front();
  std::string text;
  std::size_t workers = 0, missing = 0;
  for (std::uint32_t w = 0; w < parts_.plan().ranges.size(); ++w) {
    const auto& g = group_at(parts_.plan().group_index(w));
    if (g.server_group != parts_.group()) continue;
    ++workers;
    if (wanted_from(w, b) > clock_of(b, parts_.plan().group_index(w)).next) continue;
    if (++missing <= named) text += (missing == 1 ? " from worker" : ", worker") + std::to_string(w);
  }
  if (missing == 0 || missing == workers) return {};
  return missing > named ? text + " and " + std::to_string(missing - named) + " more" : text;
}

}  // namespace troupe
