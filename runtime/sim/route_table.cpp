#include "runtime/sim/route_table.hpp"

#include <algorithm>

namespace troupe::sim {

namespace {

void count(const route& l, fault_counts& counts) {
  counts.resent += l.sender->resent();
  counts.wire_duplicates += l.receiver->duplicates();
  counts.held += l.receiver->held();
}

}  // namespace

route_table::route_table(const network_model& m, std::uint32_t nodes, std::optional<duration> resend)
    : fabric_(m, nodes), routed_(m.fabric != fabric_kind::uniform), resend_(resend) {}

route& route_table::between(std::uint32_t from, std::uint32_t to) {
  auto& index = at_[static_cast<std::uint64_t>(from) << 32 | to];
  if (index == 0) {
    all_.emplace_back();
    index = static_cast<std::uint32_t>(all_.size());
    auto& l = all_.back();
    l.from = from;
    l.to = to;
    if (std::max(from, to) >= of_node_.size()) of_node_.resize(std::max(from, to) + std::size_t{1});
    for (auto node : {from, to}) of_node_[node].push_back(index - 1);
    if (routed_) l.way = fabric_.between(from, to);
    if (resend_) {
      l.sender = std::make_unique<channel_sender>(*resend_);
      l.receiver = std::make_unique<channel_receiver>();
    }
  }
  return all_[index - 1];
}

std::map<std::pair<std::uint32_t, std::uint32_t>, traffic> route_table::sums() const {
  std::map<std::pair<std::uint32_t, std::uint32_t>, traffic> sums;
  for (const auto& l : all_)
    if (l.sum.messages > 0) sums[{l.from, l.to}] = l.sum;
  return sums;
}

void route_table::crash(std::uint32_t node, fault_counts& counts) {
  if (node >= of_node_.size()) return;
  for (auto index : of_node_[node]) {
    auto& l = all_[index];
    l.last = {};
    counts.lost_in_crash += l.held.size();
    l.held.clear();
    if (!l.sender) continue;
    count(l, counts);
    counts.lost_in_crash += l.receiver->waiting();
    *l.sender = channel_sender(*resend_);
    *l.receiver = channel_receiver();
  }
}

void route_table::send_in(route& l, std::uint64_t session, fault_counts& counts) {
  counts.resent += l.sender->resent();
  counts.lost_with_session += l.sender->unacknowledged();
  *l.sender = channel_sender(*resend_);
  l.sends_in = session;
}

void route_table::take_in(route& l, std::uint64_t session, fault_counts& counts) {
  counts.wire_duplicates += l.receiver->duplicates();
  counts.held += l.receiver->held();
  *l.receiver = channel_receiver();
  l.takes_in = session;
}

void route_table::add_to(fault_counts& counts) const {
  for (const auto& l : all_)
    if (l.sender) count(l, counts);
}

}  // namespace troupe::sim
