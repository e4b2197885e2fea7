// The properties of a synchronisation mode that the coordinator needs: a plain value, made from the
// mode's registry entry (runtime/job/job_mode.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/messages/mode_choice.hpp"
#include "runtime/spec/survivor_rule.hpp"

namespace troupe {

struct mode_facts {
  std::string name = "bsp";
  named_texts options;  // as text, as `adopt` carries them
  bool lockstep = true;
  std::uint32_t work_unit = 0;  // packets per work unit; 0: fixed ranges
  bool rests = false;           // workers are notified of boundaries, where they rest
  survivor_rule left = survivor_rule::nothing;

  mode_choice choice() const { return {name, options}; }
  std::string text() const { return choice().text(); }
};

}  // namespace troupe
