// What shards hold of a job at any moment that a plan without the failed nodes can continue from
// (coordinator/surviving_state.hpp). A property of the mode.
#pragma once

#include <cstdint>

namespace troupe {

enum class survivor_rule : std::uint8_t {
  nothing,   // not the whole state: the job restarts from its last checkpoint
  versions,  // its weights at each of the recent steps: those of an undisturbed run
  newest,    // its weights, each block at its own version
};

}  // namespace troupe
