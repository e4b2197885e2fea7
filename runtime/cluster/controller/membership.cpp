#include "runtime/cluster/controller/membership.hpp"

#include <utility>

#include "runtime/base/printable.hpp"
#include "runtime/job/plugin_abi.hpp"

namespace troupe::control {

membership::membership(const cluster_spec& cluster, std::string self) : self_(std::move(self)) {
  for (const auto& n : cluster.nodes) nodes_[n.name];
}

const node_state& membership::at(const std::string& name) const {
  static const node_state absent;
  const auto found = nodes_.find(name);
  return found == nodes_.end() ? absent : found->second;
}

void membership::connected(const std::string& peer, std::uint64_t incarnation) {
  if (knows(peer)) connections_[peer] = incarnation;
}

std::optional<std::uint64_t> membership::connection_of(const std::string& peer) const {
  const auto found = connections_.find(peer);
  return found == connections_.end() ? std::nullopt : std::optional(found->second);
}

bool membership::disconnected(const std::string& peer, instant now) {
  connections_.erase(peer);
  const auto found = nodes_.find(peer);
  if (found == nodes_.end() || !std::exchange(found->second.up, false)) return false;
  found->second.since = now;
  if (!found->second.hung) ++found->second.failures;
  return true;
}

expected<void> membership::admit(const std::string& name, const join& m) const {
  if (m.abi != abi_version)
    return unexpected(
        error(name + " runs another build of Troupe (ABI " + std::to_string(m.abi) + "); run the same build on all nodes"));
  if (m.protocol != protocol)
    return unexpected(error(name + " uses another version of the control protocol; run the same Troupe on all nodes"));
  if (!knows(name))
    return unexpected(error("the cluster file of " + self_ + " has no node named " + name +
                            ": add its [[node]] table to the cluster file of all nodes, and restart their daemons"));
  for (const auto* text : {&m.data_address, &m.numerics})
    if (auto fine = check_path(*text); !fine && !text->empty()) return unexpected(fine.error().in(name + " joins with a bad text"));
  return {};
}

void membership::joined(const std::string& name, const join& m, instant now) {
  const auto found = nodes_.find(name);
  if (found == nodes_.end()) return;
  const auto& before = found->second;
  const auto another = before.lives == 0 || before.said.incarnation != m.incarnation;
  node_state n;
  n.up = true;
  n.said = m;
  n.since = now;
  n.lives = before.lives + (another ? 1 : 0);
  n.failures = before.failures;
  found->second = std::move(n);
}

bool membership::leaves(const std::string& name) {
  const auto found = nodes_.find(name);
  if (found == nodes_.end()) return false;
  found->second.leaving = true;
  return true;
}

void membership::hangs(const std::string& name) {
  const auto found = nodes_.find(name);
  if (found == nodes_.end()) return;
  found->second.hung = true;
  ++found->second.failures;
}

void membership::recovers(const std::string& name) {
  if (const auto found = nodes_.find(name); found != nodes_.end()) found->second.hung = false;
}

void membership::reported(const std::string& name, const report& m, instant now) {
  const auto found = nodes_.find(name);
  if (found == nodes_.end()) return;
  found->second.last = m;
  found->second.last.gpus = plausible(m.gpus);
  found->second.reported = now;
}

}  // namespace troupe::control
