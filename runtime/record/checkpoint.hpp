// Checkpoints: all state with which a job continues as if it had not stopped, in safetensors files
// that other tools can read. A folder holds the checkpoints of one job:
// checkpoint-<n>-step-<step>.safetensors. n counts up, so that the newest is the one written last,
// even if the job went back to an earlier step.
//
// Invariants: a file under such a name was complete when it got the name (temporary file, fsync,
// rename, fsync of the folder). It is read back and verified, past the page cache (file_io.hpp),
// before an older one is removed. The last two files are kept, or as many as the job says. A failed
// save leaves the older ones unchanged. A link in the folder to a checkpoint in another place
// (second_place.hpp) counts as a file of the folder if this user owns its target: other users may
// be able to replace the target. A checkpoint is a handover on disk, plus the values in
// which a job that resumes must agree: handover_record.hpp. States of an update rule are tensors
// named "<parameter>@<state>", e.g. "conv1.weight@momentum".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/record/safetensors.hpp"

namespace troupe {

struct checkpoint {
  std::string job;         // name
  std::uint64_t step = 0;  // steps done: training continues with this one
  std::uint64_t seed = 0;
  std::uint32_t packets = 1;
  std::string numerics;                // numerics id (docs/determinism.md)
  std::uint64_t sampler_position = 0;  // the step that the sampler draws next
  named_tensors named;                 // weights and rule states, in layer order
  metadata_map progress;   // other fields of the handover, as text (handover_record.hpp); empty in files of older versions
  metadata_map made_with;  // values of job keys in which a job that resumes must agree (job/resume_keys.hpp)
};

constexpr std::size_t checkpoints_kept = 2;

// Writes the next checkpoint, verifies it, and then removes all but the last `keep`. The
// error names the new file; checkpoint_files() then still lists the older ones.
expected<void, record_error> save_checkpoint(const std::string& folder, const checkpoint& c, std::size_t keep = checkpoints_kept);

// Writes one file at the caller's path, reads it back and verifies it. After a failure the previous
// file is unchanged.
expected<void, record_error> write_checkpoint(const std::string& file, const checkpoint& c);

// Puts a symbolic link to `file`, a checkpoint of this step, into the folder as its newest. Removes
// earlier links to the same file. Returns the link's path.
expected<std::string, record_error> link_checkpoint(const std::string& folder, const std::string& file, std::uint64_t step);

// Reads one file. Its checksums are required and checked.
expected<checkpoint, record_error> load_checkpoint(const std::string& file);

struct found_checkpoint {
  std::optional<checkpoint> newest;  // empty: there is no file, or none verifies
  std::string file;
  std::vector<record_error> refused;  // damaged files that are newer than `newest`
};
found_checkpoint load_newest_checkpoint(const std::string& folder);

// Paths, newest first, not verified.
std::vector<std::string> checkpoint_files(const std::string& folder);

}  // namespace troupe
