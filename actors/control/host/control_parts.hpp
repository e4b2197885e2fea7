// State of the control actor next to cluster controller and member. Only for actors.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "actors/control/host/actors.hpp"
#include "runtime/job/plugin_abi.hpp"

namespace troupe::control {

// What this node says about itself when it joins.
inline join introduction(const shared& s) {
  join j;
  net::address a{s.coordinator_at.host, s.ports.data};
  for (const auto& n : s.options.cluster.nodes)
    if (n.name == s.options.node)
      if (const auto at = data_place_of(n)) a.host = at->host;
  j.data_address = net::to_string(a);
  j.numerics = s.numerics;
  j.protocol = protocol;
  j.abi = abi_version;
  j.incarnation = s.options.incarnation;
  return j;
}

// The connection to the coordinator's daemon: dialled once a second while it is down.
struct coordinator_line {
  bool listening = false;  // this daemon's own ports are known
  bool up = false;
  instant dialled{};

  bool dial_now(instant now) {
    if (!listening || up || now - dialled < std::chrono::seconds(1)) return false;
    dialled = now;
    return true;
  }
};

// When this node reports its state.
struct report_clock {
  instant at{};

  bool due(bool has_roles, std::size_t nodes, instant now) {
    if (now - at < report_interval(has_roles, nodes)) return false;
    at = now;
    return true;
  }
};

// Submissions from REPLs that the cluster controller has not answered. Their tokens have the
// highest bit set, those of clients do not.
class repl_submissions {
 public:
  static bool has(std::uint64_t token) { return (token >> 63) != 0; }
  std::uint64_t put(submit_in s) {
    const auto token = (1ull << 63) | ++asked_;
    waiting_[token] = std::move(s);
    return token;
  }
  std::optional<submit_in> take(std::uint64_t token) {
    auto found = waiting_.extract(token);
    return found.empty() ? std::nullopt : std::optional(std::move(found.mapped()));
  }
  void forget(const std::string& peer) {
    std::erase_if(waiting_, [&](const auto& s) { return s.second.peer == peer; });
  }

 private:
  std::map<std::uint64_t, submit_in> waiting_;
  std::uint64_t asked_ = 0;
};

}  // namespace troupe::control
