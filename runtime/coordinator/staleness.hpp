// How old the weights were that steps have used, as the coordinator's event "staleness" tells it,
// put into order for whoever shows it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/role.hpp"

namespace troupe {

struct staleness_entry {
  std::string parameter;                         // "conv1.weight"
  std::map<std::uint64_t, std::uint64_t> reads;  // by clocks behind: how many
  std::uint64_t count() const;
  double mean() const;
};

// By parameter, in the event's order. Values that are no counts of clocks are left out.
std::vector<staleness_entry> staleness_of(const event_effect& e);

// The event's words for `reads` of a parameter that were `clocks` behind.
std::string staleness_key(const std::string& parameter, std::uint64_t clocks);

}  // namespace troupe
