// `troupe sim --replay DIR...`: a failed job's roles again, in the order in which they were handed
// things (runtime/replay/player.hpp).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/troupe_output.hpp"

namespace troupe {

class device;

int run_replay(const std::vector<std::string>& folders, const std::shared_ptr<device>& dev, const output& out);

}  // namespace troupe
