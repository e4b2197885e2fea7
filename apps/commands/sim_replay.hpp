// `troupe sim --replay DIR...`: runs a failed job's roles again, with the messages in the recorded
// order (runtime/replay/player.hpp).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/troupe_output.hpp"

namespace troupe {

class device;

// `load_plugins`: as of job_text (prepare_text.hpp).
int run_replay(const std::vector<std::string>& folders, bool load_plugins, const std::shared_ptr<device>& dev, const output& out);

}  // namespace troupe
