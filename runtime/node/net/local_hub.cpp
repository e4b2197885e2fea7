#include "runtime/node/net/local_hub.hpp"

#include <algorithm>

#include "runtime/node/net/local_node.hpp"

namespace troupe::net {

expected<std::uint16_t> local_hub::listen(const address& where, const std::shared_ptr<local_node>& who) {
  const std::lock_guard guard(lock_);
  address at = where;
  const auto taken = [&] {
    const auto found = listening_.find(to_string(at));
    return found != listening_.end() && !found->second.expired();
  };
  while (where.port == 0 && (at.port = next_port_++, at.port == 0 || taken())) {
  }
  if (taken()) return error{"address_in_use", "[net] " + to_string(at) + " is in use in this process"};
  listening_[to_string(at)] = who;
  return at.port;
}

std::shared_ptr<local_node> local_hub::find(const address& where) const {
  const std::lock_guard guard(lock_);
  const auto found = listening_.find(to_string(where));
  return found == listening_.end() ? nullptr : found->second.lock();
}

void local_hub::joined(const std::shared_ptr<local_node>& who) {
  const std::lock_guard guard(lock_);
  all_.push_back(who);
}

void local_hub::left(const local_node& who) {
  const std::lock_guard guard(lock_);
  std::erase_if(listening_, [&](const auto& at) {
    const auto node = at.second.lock();
    return !node || node.get() == &who;
  });
  std::erase_if(all_, [&](const auto& node) {
    const auto n = node.lock();
    return !n || n.get() == &who;
  });
}

void local_hub::tell_dialers() {
  std::vector<std::shared_ptr<local_node>> all;
  {
    const std::lock_guard guard(lock_);
    for (const auto& n : all_)
      if (auto node = n.lock()) all.push_back(std::move(node));
  }
  for (const auto& n : all) n->dial_again();
}

std::shared_ptr<local_hub> make_local_hub() { return std::make_shared<local_hub>(); }

bool reaches(const local_hub& hub, const address& where) { return hub.find(where) != nullptr; }

}  // namespace troupe::net
