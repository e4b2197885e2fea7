// Decodes the coordinator's event "staleness" (the age of the weights that steps have used) for
// display.
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
  std::map<std::uint64_t, std::uint64_t> reads;  // number of reads by staleness in clocks
  std::uint64_t count() const;
  double mean() const;
};

// By parameter, in the event's order. Values that are not staleness counts are skipped.
std::vector<staleness_entry> staleness_of(const event_effect& e);

// The event's key for the reads of a parameter that were `clocks` behind.
std::string staleness_key(const std::string& parameter, std::uint64_t clocks);

}  // namespace troupe
