// Copies the recording of a job (runtime/node/post_mortem.hpp) from all nodes of a cluster. A node
// is not trusted: it chooses neither where a copy is written nor which kinds of files come.
// Threads: one at a time. Errors: values; a node that does not answer is noted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "actors/control/client/node_links.hpp"
#include "runtime/base/result.hpp"

namespace troupe {

// A node's recording of one job has at most so many files, and each of its texts so many bytes.
inline constexpr std::size_t max_recorded_files = 65536;
inline constexpr std::uint64_t max_recorded_text = std::uint64_t{64} << 20;

// An error if a list of files that a node offers is not that of a recording of `job`: each name
// must be JOB-FOLDER/recording/PLAN-FOLDER/FILE with a known FILE, no name may come twice, and all
// files together must fit into `room` bytes.
expected<void> check_recorded_files(const std::vector<control::recorded_file>& files, std::uint32_t job, std::uint64_t room);

// Copies the files into `to`/NODE/..., which only this user can read. `job`: its number on the
// cluster. Returns the nodes that are missing, and why.
expected<std::vector<std::string>> copy_recording(node_links& from, std::uint32_t job, const std::filesystem::path& to);

}  // namespace troupe
