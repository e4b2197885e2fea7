// Copies the recording of a job (runtime/node/post_mortem.hpp) from all nodes of a cluster.
// Threads: one at a time. Errors: values; a node that does not answer is noted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "actors/control/client/node_links.hpp"
#include "runtime/base/result.hpp"

namespace troupe {

// Copies the files into `to`/NODE/... `job`: its number on the cluster. Returns the nodes that are
// missing, and why.
expected<std::vector<std::string>> copy_recording(node_links& from, std::uint32_t job, const std::filesystem::path& to);

}  // namespace troupe
