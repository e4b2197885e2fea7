// What shards have of a job at any moment, for a plan that goes on without lost nodes
// (coordinator/surviving_state.hpp). A trait of the mode.
#pragma once

#include <cstdint>

namespace troupe {

enum class survivor_rule : std::uint8_t {
  nothing,   // not all that the job is: it goes back to what was kept last
  versions,  // its weights at every step of late: they are those of an undisturbed run
  newest,    // its weights, each block as it is
};

}  // namespace troupe
