#include "runtime/sim/fabric.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::sim {

fabric::fabric(const network_model& m, std::uint32_t nodes) : model_(m), nodes_(nodes) {
  if (m.fabric == fabric_kind::uniform) return;
  links_.resize(2 * static_cast<std::size_t>(nodes));
  for (auto& l : links_) l.bytes_per_second = m.bytes_per_second;
  for (const auto& [node, rate] : m.node_bytes_per_second)
    if (node < nodes) links_[2 * node].bytes_per_second = links_[2 * node + 1].bytes_per_second = rate;
  if (m.fabric != fabric_kind::tree) return;
  const auto racks = (nodes + m.rack - 1) / m.rack;
  link up;
  up.bytes_per_second =
      m.uplink_bytes_per_second > 0 ? m.uplink_bytes_per_second : m.bytes_per_second * m.rack / std::max(m.oversubscription, 1e-9);
  links_.resize(links_.size() + 2 * static_cast<std::size_t>(racks), up);
}

path fabric::between(std::uint32_t from, std::uint32_t to) const {
  const std::uint32_t back = model_.full_duplex ? 1 : 0;  // full duplex: separate links for incoming messages
  const bool one_switch = model_.fabric == fabric_kind::star || from / model_.rack == to / model_.rack;
  if (one_switch) return {{2 * from, 2 * to + back}, 2};
  return {{2 * from, 2 * nodes_ + 2 * (from / model_.rack), 2 * nodes_ + 2 * (to / model_.rack) + back, 2 * to + back}, 4};
}

fabric::passage fabric::pass(std::uint32_t at, time_point now, time_point tail, std::uint64_t bytes) {
  auto& l = links_[at];
  const auto begin = std::max(now, l.free);
  const auto takes = l.bytes_per_second > 0
                         ? duration(static_cast<std::int64_t>(std::llround(1e9 * static_cast<double>(bytes) / l.bytes_per_second)))
                         : duration{};
  const auto end = std::max(begin + takes, tail);
  l.free = end;
  ++l.messages;
  l.bytes += bytes;
  l.busy += end - begin;
  return {(model_.cut_through ? begin : end) + model_.latency, end + model_.latency};
}

std::string fabric::name_of(std::uint32_t l) const {
  const bool node = l < 2 * nodes_;
  const auto i = node ? l : l - 2 * nodes_;
  const auto name = (node ? "n" : "rack") + std::to_string(i / 2 + 1);
  if (!model_.full_duplex) return name;
  return name + (node ? (i % 2 == 0 ? " out" : " in") : (i % 2 == 0 ? " up" : " down"));
}

}  // namespace troupe::sim
