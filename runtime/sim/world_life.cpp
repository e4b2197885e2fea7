// Ends of nodes' processes; clocks; checkpoints on disk.
#include <algorithm>
#include <utility>

#include "runtime/sim/world.hpp"

namespace troupe::sim {

// Returns true if the event belongs to a former life of its source or destination node; such
// events are dropped.
bool world::void_now(const record& r) {
  const auto gone = [&](std::uint32_t node, std::uint32_t life) { return node < nodes_.size() && nodes_[node].life != life; };
  if (gone(r.to, r.to_life)) {
    ++report_.counts.lost_in_crash;
    return true;
  }
  if (!gone(r.from, r.from_life)) return false;
  ++(nodes_[r.from].up ? report_.counts.stale : report_.counts.lost_in_crash);
  return true;
}

void world::slow(std::uint32_t node, double factor) { nodes_.at(node).slow = factor; }

void world::skew(std::uint32_t node, duration ahead, double rate) {
  const auto since_start = static_cast<double>(now_.count());
  nodes_.at(node).clock = {ahead + duration(static_cast<std::int64_t>(since_start * (1 - rate))), rate};
}

time_point world::read_clock(std::uint32_t node) const {
  const auto& c = nodes_[node].clock;
  if (c.rate == 1) return now_ + c.ahead;
  return duration(static_cast<std::int64_t>(static_cast<double>(now_.count()) * c.rate)) + c.ahead;
}

// As in the control plane: checkpoints are written one after the other; one that would be the third
// is skipped.
void world::write_checkpoint(std::uint32_t node, const store_effect& s) {
  auto& n = nodes_[node];
  if (n.writing >= 2) return void(++report_.counts.left_out);
  double bytes = 0;
  for (const auto& [name, t] : s.named) bytes += static_cast<double>(t.bytes());
  auto takes = seconds_of(config_.disk.latency);
  if (config_.disk.bytes_per_second > 0) takes += bytes / config_.disk.bytes_per_second;
  takes *= faults_.slowness_of_disk(node, now_, report_.counts);
  if (takes == 0) {
    ++report_.counts.stored;
    if (on_stored) on_stored(s.step, now_);
    return;
  }
  const auto begun = std::max(n.disk_free, now_);
  n.disk_free = begun + duration(static_cast<std::int64_t>(1e9 * takes));
  ++n.writing;
  at(n.disk_free, [this, node, step = s.step, from = now_, life = n.life] {
    if (nodes_[node].life != life) return;
    --nodes_[node].writing;
    ++report_.counts.stored;
    if (on_stored) on_stored(step, from);
  });
}

void world::end_process(std::uint32_t node) {
  if (node >= nodes_.size() || !nodes_[node].up) return;
  auto& n = nodes_[node];
  n.up = false;
  ++n.life;
  ++report_.counts.crashed;
  for (auto& h : roles_)
    if (h.value && h.node == node) end_life(h);
  for (auto& s : n.spawns) end_spawn(s);
  n.spawns.clear();
  processors_.clear(node, now_);
  if (auto& store = n.shared) {
    report_.counts.lost_updates += store->lost();
    store.reset();
  }
  routes_.crash(node, report_.counts);
  n.writing = 0;
  n.disk_free = {};
  report_.counts.lost_in_crash += n.aside.size();
  for (auto s : n.aside) give_back(s, queue_[s]);
  n.aside.clear();
  n.stopped = false;
  n.late = 0;
}

void world::end_life(hosted& h) {
  h.value.reset();
  h.last_task = {};
  h.last_shared = {};
  h.last_from = {};
  h.stopped = false;
  h.failed = false;
}

}  // namespace troupe::sim
