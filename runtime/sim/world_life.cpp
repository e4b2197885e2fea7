// Nodes that crash and come back.
#include <algorithm>

#include "runtime/sim/world.hpp"

namespace troupe::sim {

// Does this event belong to a node or role as it was before it crashed? Then it is void.
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
}

void world::crash(std::uint32_t node) {
  if (inside_) return at(now_, [this, node] { crash(node); });
  if (node >= nodes_.size() || !nodes_[node].up) return;
  nodes_[node].up = false;
  ++nodes_[node].life;
  ++report_.counts.crashed;
  for (auto& h : roles_) {
    if (h.node == node && h.value) end_life(h);
  }
  processors_.clear(node, now_);
  if (auto& store = nodes_[node].shared) {
    report_.counts.lost_updates += store->lost();
    store.reset();
  }
  lanes_.crash(node, report_.counts);
  at(now_ + config_.faults.detect, [this, node, life = nodes_[node].life] { detect(node, life); });
}

void world::detect(std::uint32_t node, std::uint32_t life) {
  if (nodes_[node].up || nodes_[node].life != life) return;
  ++report_.counts.reported_down;
  const auto name = node < config_.node_names.size() ? config_.node_names[node] : "n" + std::to_string(node + 1);
  if (!at_home(role_id{0})) {  // nobody is left to be told
    if (on_event) on_event({"error", 0, {}, "node " + name + " is lost: it crashed; the coordinator is gone"});
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
  for (std::uint32_t i = 0; i < roles_.size(); ++i) {
    auto& h = roles_[i];
    if (h.there && h.node == node && !h.value) begin_life(role_id{i});
  }
}

void world::end_life(hosted& h) {
  h.value.reset();
  h.timers.clear();
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
}

void world::restart(role_id id) {
  if (inside_) return at(now_, [this, id] { restart(id); });
  if (index_of(id) >= roles_.size() || !remake) return;
  const auto& h = roles_[index_of(id)];
  if (!h.there || h.value || !up(h.node)) return;
  ++report_.counts.restarted;
  begin_life(id);
}

// Was it said by a role that has crashed since, on a node that has not? (Of nodes: void_now.)
bool world::of_past_life(const envelope& e) const {
  return index_of(e.h.src) < roles_.size() && e.h.incarnation < roles_[index_of(e.h.src)].fenced;
}

}  // namespace troupe::sim
