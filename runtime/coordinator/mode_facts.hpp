// The properties of a synchronisation mode that the coordinator needs: a plain value, made from the
// mode's registry entry (runtime/job/job_mode.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/spec/survivor_rule.hpp"

namespace troupe {

struct mode_facts {
  std::string name = "bsp";
  std::vector<std::pair<std::string, std::string>> options;  // as text, as `adopt` carries them
  bool lockstep = true;
  std::uint32_t work_unit = 0;  // packets per work unit; 0: fixed ranges
  bool rests = false;           // workers are notified of boundaries, where they rest
  survivor_rule left = survivor_rule::nothing;

  std::string text() const {  // "ssp staleness=3"
    std::string t = name;
    for (const auto& [key, value] : options) t.append(" ").append(key).append("=").append(value);
    return t;
  }
};

}  // namespace troupe
