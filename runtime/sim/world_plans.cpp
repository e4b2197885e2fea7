// Roles of plans on nodes with a daemon: spawn, end, the fence, and stopped processes.
#include <algorithm>
#include <stdexcept>
#include <utility>

#include "runtime/base/exception_text.hpp"
#include "runtime/sim/world.hpp"

namespace troupe::sim {

world::node_state& world::node_at(std::uint32_t node) {
  const auto known = static_cast<std::uint32_t>(nodes_.size());
  if (node < known) return nodes_[node];
  if (begun_ && config_.network.fabric != fabric_kind::uniform)
    throw std::invalid_argument("node " + std::to_string(node) + " is new, and the fabric has links for " + std::to_string(known) +
                                " nodes: set world_config::nodes");
  nodes_.resize(node + std::size_t{1});
  for (auto n = known; n <= node && begun_ && faults_.any(); ++n) nodes_[n].clock = faults_.clock_of(n);
  return nodes_[node];
}

std::uint32_t world::know(std::uint32_t job, std::uint32_t generation, std::vector<std::uint32_t> node_of) {
  auto& number = latest_[{job, generation}];
  if (number != 0 && plans_[number].node_of == node_of) return number;
  if (!node_of.empty()) node_at(*std::max_element(node_of.begin(), node_of.end()));
  number = static_cast<std::uint32_t>(plans_.size());
  auto& p = plans_.emplace_back();
  p.job = job;
  p.generation = generation;
  p.node_of = std::move(node_of);
  return number;
}

// --- spawn and end

world::spawned* world::spawned_on(std::uint32_t node, std::uint32_t job) {
  for (auto& s : nodes_[node].spawns)
    if (s.job == job) return &s;
  return nullptr;
}

// Of the roles that were spawned on the node for the plan; 0 for plan 0.
std::uint64_t world::serial_of(std::uint32_t node, std::uint32_t plan) {
  if (plan == 0) return 0;
  const auto* s = spawned_on(node, plans_[plan].job);
  return s && s->plan == plan ? s->serial : 0;
}

void world::spawn(std::uint32_t node, std::uint32_t plan, std::vector<seat> roles) {
  const auto here = "sim::world: plan " + std::to_string(plan) + " on node " + std::to_string(node) + ": ";
  if (plan == 0 || plan >= plans_.size()) throw std::invalid_argument(here + "the plan is not known: call know() first");
  auto& p = plans_[plan];
  auto& n = node_at(node);
  if (!n.up) throw std::invalid_argument(here + "the node is down: call revive() first");
  if (spawned_on(node, p.job))
    throw std::invalid_argument(here + "the node already hosts job " + std::to_string(p.job) + ": call end() first");
  for (const auto& r : roles)
    if (index_of(r.id) >= p.node_of.size() || p.node_of[index_of(r.id)] != node || !r.value)
      throw std::invalid_argument(here + "role " + std::to_string(index_of(r.id)) +
                                  " is null or not a role of the plan on this node");
  if (p.roles.empty()) {
    p.roles.resize(p.node_of.size());
    for (std::size_t i = 0; i < p.roles.size(); ++i) {
      p.roles[i].node = p.node_of[i];
      p.roles[i].incarnation = p.generation;
    }
  }
  ++p.spawned;
  auto& s = n.spawns.emplace_back();
  s.job = p.job;
  s.plan = plan;
  s.serial = ++serials_;
  s.began = read_clock(node);
  for (auto& r : roles) {
    auto& h = place(plan, r.id);
    h.value = std::move(r.value);
    h.messages = 0;
    h.dev = r.device < config_.devices.size() ? config_.devices[r.device] : config_.dev;
    s.roles.push_back(r.id);
  }
}

void world::end(std::uint32_t node, std::uint32_t job) {
  if (inside_) return at(now_, [this, node, job] { end(node, job); });
  if (node >= nodes_.size()) return;
  auto* s = spawned_on(node, job);
  if (!s) return;
  end_spawn(*s);
  nodes_[node].spawns.erase(nodes_[node].spawns.begin() + (s - nodes_[node].spawns.data()));
}

// Their messages and tasks find that the spawn is gone.
void world::end_spawn(spawned& s) {
  auto& p = plans_[s.plan];
  for (auto id : s.roles) {
    auto& h = p.roles[index_of(id)];
    keep_streams(h);
    end_life(h);
  }
  if (s.shared) report_.counts.lost_updates += s.shared->lost();
  if (--p.spawned == 0) std::vector<hosted>().swap(p.roles);
}

// Tasks that run elsewhere use the streams of their role.
void world::keep_streams(hosted& h) {
  if (tasks_.none()) {
    old_streams_.clear();
  } else {
    for (auto& s : h.streams) old_streams_.push_back(std::move(s));
    old_streams_.push_back(std::move(h.leaving));
  }
  h.streams.clear();
  h.leaving.reset();
}

std::vector<world::hosted_role> world::roles_of(std::uint32_t node) const {
  std::vector<hosted_role> all;
  if (node >= nodes_.size()) return all;
  for (const auto& s : nodes_[node].spawns)
    for (auto id : s.roles) {
      const auto& h = plans_[s.plan].roles[index_of(id)];
      all.push_back({s.plan, id, h.value.get(), h.messages, h.failed});
    }
  return all;
}

// --- messages

void world::deliver(std::uint32_t node, std::uint32_t job, envelope e) {
  const auto* s = node < nodes_.size() ? spawned_on(node, job) : nullptr;
  if (!s) {
    ++report_.counts.lost_in_crash;
    return;
  }
  record* r = nullptr;
  const auto entry = fill(r, kind::deliver, node, node);
  r->e = std::move(e);
  r->e.h.job = job;
  r->e.h.incarnation = plans_[s->plan].generation;
  r->plan = s->plan;
  r->session = s->serial;
  queue_.push(now_, entry);
}

// Returns true if the message's connection has ended.
bool world::lost_on_the_way(record& r) {
  if (r.session == 0 || r.from == r.to || std::exchange(r.arrived, true)) return false;
  if (!session || session(r.to, r.from) == r.session) return false;
  ++report_.counts.lost_with_session;
  return true;
}

// Returns what takes the message; null: nothing, it is counted.
const world::spawned* world::receiver_of(const record& r) {
  const auto* s = spawned_on(r.to, r.e.h.job);
  if (r.from == r.to) {
    if (s && s->serial == r.session) return s;
    ++report_.counts.lost_in_crash;
    return nullptr;
  }
  if (s && (config_.no_fence || plans_[s->plan].generation == r.e.h.incarnation)) return s;
  ++report_.counts.stale;
  if (s && on_acted) on_acted(r.to, s->plan, r.e.h.dst, r.e, true);
  return nullptr;
}

// The role of a plan on this node; null: none.
world::hosted* world::at_home(std::uint32_t node, std::uint32_t plan, role_id id) {
  auto& roles = plans_[plan].roles;
  if (index_of(id) >= roles.size()) return nullptr;
  auto& h = roles[index_of(id)];
  return h.node == node && h.value ? &h : nullptr;
}

void world::act_in_plan(hosted& h, const spawned& in, record& r) {
  const auto plan = in.plan;
  const bool watched = on_acted && !std::holds_alternative<finished>(r.e.body);
  try {
    act(h, plan, r, read_clock(r.to) - in.began, watched);
  } catch (const mistake&) {
    throw;
  } catch (...) {
    if (!on_role_failure) throw;
    fail(r.to, plan, r.e.h.dst, r.e.h.step, current_exception_text());
  }
  if (watched) on_acted(r.to, plan, r.e.h.dst, r.e, false);
}

// A task that has thrown elsewhere fails its role, if that is still there.
void world::wait_for_task(const record& r) {
  if (r.session == 0 || !on_role_failure) return tasks_.wait_for(r.number);
  try {
    tasks_.wait_for(r.number);
  } catch (...) {
    const auto* in = nodes_[r.to].life == r.to_life ? spawned_on(r.to, r.e.h.job) : nullptr;
    if (in && in->serial == r.session) fail(r.to, in->plan, r.e.h.dst, r.e.h.step, current_exception_text());
  }
}

void world::fail(std::uint32_t node, std::uint32_t plan, role_id who, std::uint64_t step, const std::string& what) {
  place(plan, who).failed = true;
  buffers_.wanted.clear();
  inside_ = false;
  on_role_failure(node, plan, who, step, what);
}

// --- processes

void world::die(std::uint32_t node) {
  if (inside_) return at(now_, [this, node] { die(node); });
  end_process(node);
}

void world::revive(std::uint32_t node) {
  if (inside_) return at(now_, [this, node] { revive(node); });
  auto& n = node_at(node);
  if (n.up) return;
  n.up = true;
  ++report_.counts.restarted;
}

void world::stop(std::uint32_t node) {
  auto& n = node_at(node);
  if (n.up) n.stopped = true;
}

void world::go_on(std::uint32_t node) {
  auto& n = node_at(node);
  n.stopped = false;
  for (auto s : std::exchange(n.aside, {})) {
    queue_[s].again = true;
    ++n.late;
    queue_.push(now_, s);
  }
}

// Puts the record aside if the node is stopped. Records that arrive while those of a stop are in
// the queue once more go behind them, so that the order is kept. Returns false if the node handles
// the record now.
bool world::put_aside(slot s, record& r) {
  if (!has_to_wait(r.to)) return false;
  auto& n = nodes_[r.to];
  if (n.late > 0 && !r.again) {
    r.again = true;
    ++n.late;
    queue_.push(now_, s);
    return true;
  }
  if (std::exchange(r.again, false)) --n.late;
  if (n.stopped) n.aside.push_back(s);
  return n.stopped;
}

}  // namespace troupe::sim
