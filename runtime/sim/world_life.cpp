// Crashes and restarts of nodes and roles; clocks; checkpoints on disk.
#include <algorithm>
#include <utility>

#include "runtime/sim/world.hpp"

namespace troupe::sim {

// Returns true if the event belongs to a former incarnation of its source or destination node; such
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

void world::plan_crashes() {
  for (const auto& c : faults_.crashes(static_cast<std::uint32_t>(nodes_.size())))
    at(c.at, [this, c] {
      if (c.role != no_role) {
        crash(c.role);
        if (c.restart_after >= duration{}) at(now_ + c.restart_after, [this, c] { restart(c.role); });
        return;
      }
      if (!up(c.node)) return;
      crash(c.node);
      if (c.restart_after >= duration{})
        at(now_ + c.restart_after, [this, node = c.node, life = nodes_[c.node].life] {
          if (nodes_[node].life == life) restart(node);
        });
    });
  for (const auto& u : faults_.units(static_cast<std::uint32_t>(nodes_.size()))) plan_next_crash(u);
}

void world::plan_next_crash(const faults::unit& u) {
  const auto& f = faults_.model().list[u.fault];
  auto when = std::max(now_, time_point(f.from)) + faults_.next_crash(u);
  if (when >= f.until) return;
  ++lying_in_wait_;
  at(when, [this, u, back = f.restart_after] {
    --lying_in_wait_;
    for (auto n : u.nodes) crash(n);
    if (back < duration{}) return;
    at(now_ + back, [this, u] {
      for (auto n : u.nodes) restart(n);
      plan_next_crash(u);
    });
  });
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

// A crash costs the roles of its node, not those of the cluster.
const std::vector<std::uint32_t>& world::roles_on(std::uint32_t node) {
  if (!std::exchange(roles_listed_, true)) {
    for (auto& n : nodes_) n.roles.clear();
    for (std::uint32_t i = 0; i < roles_.size(); ++i)
      if (roles_[i].there) nodes_[roles_[i].node].roles.push_back(i);
  }
  return nodes_[node].roles;
}

void world::crash(std::uint32_t node) {
  if (inside_) return at(now_, [this, node] { crash(node); });
  if (node >= nodes_.size() || !nodes_[node].up) return;
  nodes_[node].up = false;
  ++nodes_[node].life;
  ++report_.counts.crashed;
  if (on_life) on_life(life_change::crashed, node, no_role);
  for (auto i : roles_on(node))
    if (roles_[i].value) end_life(roles_[i]);
  processors_.clear(node, now_);
  if (auto& store = nodes_[node].shared) {
    report_.counts.lost_updates += store->lost();
    store.reset();
  }
  routes_.crash(node, report_.counts);
  nodes_[node].writing = 0;
  nodes_[node].disk_free = {};
  at(now_ + config_.faults.detect, [this, node, life = nodes_[node].life] { detect(node, life); });
}

void world::detect(std::uint32_t node, std::uint32_t life) {
  if (nodes_[node].up || nodes_[node].life != life) return;
  ++report_.counts.reported_down;
  if (on_life) on_life(life_change::reported_down, node, no_role);
  const auto name = node < config_.node_names.size() ? config_.node_names[node] : "n" + std::to_string(node + 1);
  if (!at_home(role_id{0})) {  // the coordinator is down: there is no role to notify
    if (on_event) on_event({0, error_event{"node " + name + " is lost: it crashed; the coordinator is gone"}});
    return;
  }
  envelope e;
  e.h.dst = role_id{0};
  e.body = peer_down{name, "it crashed"};
  inject(std::move(e));
}

void world::restart(std::uint32_t node) {
  if (inside_) return at(now_, [this, node] { restart(node); });
  if (node >= nodes_.size() || nodes_[node].up || !remake) return;
  nodes_[node].up = true;
  ++report_.counts.restarted;
  if (on_life) on_life(life_change::restarted, node, no_role);
  for (auto i : roles_on(node))
    if (!roles_[i].value) begin_life(role_id{i});
}

void world::end_life(hosted& h) {
  h.value.reset();
  h.last_task = {};
  h.last_shared = {};
  h.last_from = {};
  h.stopped = false;
}

void world::begin_life(role_id id) {
  auto& h = roles_[index_of(id)];
  h.value = remake(id, h.incarnation + 1);
  if (!h.value) return;
  ++h.incarnation;
  envelope e;
  e.h.dst = id;
  e.h.incarnation = h.incarnation;
  e.body = start{};
  inject(std::move(e));
}

void world::crash(role_id id) {
  if (inside_) return at(now_, [this, id] { crash(id); });
  if (!at_home(id)) return;
  auto& h = roles_[index_of(id)];
  end_life(h);
  h.fenced = h.incarnation + 1;
  ++report_.counts.crashed;
  if (on_life) on_life(life_change::crashed, h.node, id);
}

void world::restart(role_id id) {
  if (inside_) return at(now_, [this, id] { restart(id); });
  if (index_of(id) >= roles_.size() || !remake) return;
  const auto& h = roles_[index_of(id)];
  if (!h.there || h.value || !up(h.node)) return;
  ++report_.counts.restarted;
  if (on_life) on_life(life_change::restarted, h.node, id);
  begin_life(id);
}

// Returns true if the sender has crashed since, without its node. (For nodes: void_now.)
bool world::of_past_life(const envelope& e) const {
  return index_of(e.h.src) < roles_.size() && e.h.incarnation < roles_[index_of(e.h.src)].fenced;
}

}  // namespace troupe::sim
