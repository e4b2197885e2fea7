// Log lines about messages that roles have dropped as mistakes (runtime/messages/drops.hpp). A role
// gets a line when its count reaches 1, 2, 4, 8, ..., so that a peer that sends nothing else cannot
// fill the log. A value; for one thread.
#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/shell/node_host.hpp"

namespace troupe {

class drop_log {
 public:
  // Lines that are due, of all roles here. Roles that are gone are forgotten.
  std::vector<std::string> lines(const std::vector<role_published>& roles) {
    std::vector<std::string> due;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> seen;
    for (const auto& r : roles) {
      const auto& d = r.status.dropped;
      const auto n = std::bit_floor(d.mistakes());
      if (n == 0) continue;
      const std::pair key{r.job, index_of(r.id)};
      const auto before = logged_.find(key);
      if (before == logged_.end() || before->second < n) due.push_back(line(r));
      seen[key] = n;
    }
    logged_ = std::move(seen);
    return due;
  }

 private:
  static std::string line(const role_published& r) {
    const auto& d = r.status.dropped;
    return "job " + std::to_string(r.job & 0xffff) + ": role " + r.name + " has rejected " + std::to_string(d.mistakes()) +
           (d.mistakes() == 1 ? " message (" : " messages (") + mistakes_text(d) +
           "); a peer runs other code or another plan, or does not follow the protocol";
  }

  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> logged_;  // by job and role: the last power of two
};

}  // namespace troupe
