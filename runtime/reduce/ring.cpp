// Reducer `ring`: a shard and a reducer on the node of every worker (Patarasuk and Yuan 2009). The
// sum of a block starts at the worker after the one next to its shard and passes from reducer to
// reducer. Each adds its own worker's packets, and the sum is complete at the node of the shard.
// Weights pass the other way round. Bytes: 2 W (N-1)/N out of every node, N - 1 hops each way; a
// node communicates with its two neighbours only.
//
// A sum is added in ring order, starting at another worker for each shard. So its bits differ from
// those of the other reducers and depend on the number of workers; for one number of workers they
// are always the same.
#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "runtime/reduce/passing_reducer.hpp"
#include "runtime/reduce/stock.hpp"

namespace troupe {
namespace {

// A reducer of a ring . For each block it adds the packets of its colocated worker to the
// sum from the previous reducer, and passes the result to the next reducer, or to the colocated
// shard if that shard owns the block. The sum of a block starts after its shard, so each shard's
// sums start at another reducer and all links are busy at once.
//
// Messages per step and block: one push to the next reducer, one weights to the previous one; with
// the colocated worker as under `server`.
// Invariants: this worker's packets are summed first, in their order; then previous sum + own sum.
// So for one number of workers a sum always has the same bits, whatever the timing.
class ring_sum final : public passing_reducer {
 public:
  explicit ring_sum(reducer_config c);

 private:
  // The sums of one step that have arrived.
  struct gathering {
    std::vector<sum_ptr> ours;  // by position in cover_; null: not arrived
    sum_ptr before;             // from the previous reducer
  };

  void add(const header& h, const push& p, effects& out) override;
  void forget(std::uint32_t block, std::uint64_t before) override;
  std::size_t open() const override;
  bool begins(std::uint32_t block) const { return below(block).size() == 1; }  // no reducer precedes this one
  sum_ptr* place_of(gathering& g, const header& h, const push& p) const;
  bool complete(const gathering& g, std::uint32_t block) const;

  std::vector<tree_node> cover_;                          // of the colocated worker's packets
  std::vector<std::map<std::uint64_t, gathering>> open_;  // by block, step
};

ring_sum::ring_sum(reducer_config c) : passing_reducer(std::move(c)) {
  const auto range = plan().range_of(plan()[self()].worker);
  cover_ = cover(range.first, range.count, plan().packets);
  open_.resize(plan().blocks.size());
}

// The place of a push in `g`; null if it has none.
sum_ptr* ring_sum::place_of(gathering& g, const header& h, const push& p) const {
  if (h.src != below(p.block).front()) return &g.before;
  if (!well_formed({p.first, p.span}, plan().packets)) return nullptr;
  const auto at = std::find(cover_.begin(), cover_.end(), normal({p.first, p.span}, plan().packets));
  if (at == cover_.end()) return nullptr;
  g.ours.resize(cover_.size());
  return &g.ours[static_cast<std::size_t>(at - cover_.begin())];
}

bool ring_sum::complete(const gathering& g, std::uint32_t block) const {
  return !g.ours.empty() && std::find(g.ours.begin(), g.ours.end(), nullptr) == g.ours.end() && (begins(block) || g.before);
}

void ring_sum::add(const header& h, const push& p, effects& out) {
  auto& open = open_[p.block];
  if (open.size() >= max_open_steps && !open.count(h.step)) return drop(drop_reason::unexpected);
  auto& g = open[h.step];
  auto* place = place_of(g, h, p);
  if (!place) return drop(drop_reason::malformed);
  if (*place) return drop(drop_reason::repeated);
  *place = std::make_shared<tensors>(1, p.sum);
  if (!complete(g, p.block)) return;
  additions due;
  auto sum = g.ours.front();
  for (std::size_t i = 1; i < g.ours.size(); ++i) sum = plan_addition(sum, g.ours[i], due);
  if (g.before) sum = plan_addition(g.before, sum, due);
  open.erase(h.step);
  leaves(p.block, h.step);
  add_and_send(p.block, h.step, root_of(plan().packets), sum, std::move(due), out);
}

void ring_sum::forget(std::uint32_t block, std::uint64_t before) {
  auto& open = open_[block];
  open.erase(open.begin(), open.lower_bound(before));
}

std::size_t ring_sum::open() const {
  std::size_t n = 0;
  for (const auto& steps : open_) n += steps.size();
  return n;
}

}  // namespace

reducer_descriptor ring_reducer() {
  return {
      .name = "ring",
      .doc =
          "Sums pass from worker to worker around a ring, up to the shard on the node of one of them: as few bytes as `sharded`, "
          "and two neighbours per node, but one hop per worker. A sum is added in ring order, so weights equal those of the "
          "other reducers up to rounding.",
      .specs = {},
      .places =
          [](const options&) {
            return reducer_placing{reducer_placing::shards::colocated_with_workers, true};
          },
      .lay_out =
          [](const options&, reducer_layout& l) {
            std::vector<role_id> colocated;
            for (std::uint32_t rank = 0; rank < l.workers(); ++rank) {
              colocated.push_back(l.add(rank));
              l.push_to(rank, colocated.back());
            }
            l.ring(colocated);
          },
      .make = [](reducer_config c) -> std::unique_ptr<role> { return std::make_unique<ring_sum>(std::move(c)); }};
}

}  // namespace troupe
