#include "runtime/reduce/device_reducer.hpp"

#include <algorithm>

#include "ops/device.hpp"

namespace troupe {

device_reducer::device_reducer(reducer_config c) : passing_reducer(std::move(c)) {
  const auto covered = plan().covered(self());
  packets_ = covered.count;
  whole_ = cover(covered.first, covered.count, plan().packets).front();
  for (auto r : plan().below(self())) {
    const auto theirs = plan()[r].does().adds == role_sums::of_others ? plan().covered(r) : plan().range_of(plan()[r].worker);
    sent_[r] = cover(theirs.first, theirs.count, plan().packets);
  }
  open_.resize(plan().blocks.size());
}

void device_reducer::add(const header& h, const push& p, effects& out) {
  const auto& nodes = sent_.at(h.src);  // passing_reducer takes pushes from roles below only
  if (std::find(nodes.begin(), nodes.end(), tree_node{p.first, p.span}) == nodes.end()) return drop(drop_reason::malformed);
  auto& open = open_[p.block];
  if (open.size() >= max_open_steps && !open.count(h.step)) return drop(drop_reason::unexpected);
  auto& g = open[h.step];
  if (!g.parts.emplace(p.first, p.sum).second) return drop(drop_reason::repeated);
  g.packets += std::min(p.span, plan().packets - p.first);
  if (g.packets < packets_) return;
  tensors parts;
  for (auto& [first, part] : g.parts) parts.push_back(std::move(part));
  open.erase(h.step);
  leaves(p.block, h.step);
  const auto sum = std::make_shared<tensors>(1, tensor::declare(parts[0].dims(), parts[0].type()));
  const task_cost cost{0, static_cast<double>(parts.size() + 1) * static_cast<double>(parts[0].bytes()), "add"};
  run_and_send(
      p.block, h.step, whole_, sum,
      [sum, parts = std::move(parts)](task_context& c) {
        (*sum)[0].back(c.dev);
        c.dev.sum_across(parts, (*sum)[0]);
      },
      cost, out);
}

void device_reducer::forget(std::uint32_t block, std::uint64_t before) {
  auto& open = open_[block];
  open.erase(open.begin(), open.lower_bound(before));
}

std::size_t device_reducer::open() const {
  std::size_t n = 0;
  for (const auto& steps : open_) n += steps.size();
  return n;
}

}  // namespace troupe
