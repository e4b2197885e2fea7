// Checkpoints: everything needed to go on as if nothing had happened, in safetensors files that
// other tools can read. A folder holds one job's: checkpoint-<n>-step-<step>.safetensors, n
// counting up, so that "newest" means written last even when a job was taken back to an earlier
// step.
//
// Invariants: a file under such a name was complete when it got it (temp file, fsync, rename, fsync
// of the folder); it is read back and verified, past the page cache (file_io.hpp), before an older
// one goes; the last two, or as many as the job says, are kept. A failed save leaves the older ones
// as they were. A checkpoint is a handover on disk, with what its job must have in common with the
// one that goes on: handover_record.hpp. States of an update rule are tensors named
// "<parameter>@<state>", e.g. "conv1.weight@momentum".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/record/safetensors.hpp"

namespace troupe {

struct checkpoint {
  std::string job;         // name
  std::uint64_t step = 0;  // steps done: training continues with this one
  std::uint64_t seed = 0;
  std::uint32_t packets = 1;
  std::string numerics;                // numerics id (docs/determinism.md)
  std::uint64_t sampler_position = 0;  // step the sampler is asked for next
  named_tensors named;                 // weights and rule states, in layer order
  metadata_map progress;   // the rest of a handover, as text (handover_record.hpp); files of before it was kept have none
  metadata_map made_with;  // values of the job's keys that a job which goes on must have too (job/resume_keys.hpp)
  metadata_map extra;      // the caller's own
};

constexpr std::size_t checkpoints_kept = 2;

// Writes the next one and, once it has verified, removes all but the last `keep`. Nothing: done.
// The error names the new file; checkpoint_files() then still lists the older ones.
std::optional<record_error> save_checkpoint(const std::string& folder, const checkpoint& c, std::size_t keep = checkpoints_kept);

// One file at a place of the caller's choice: written, read back and verified; a failure leaves
// what was there as it was.
std::optional<record_error> write_checkpoint(const std::string& file, const checkpoint& c);

// One file; its checksums are required and checked.
std::variant<checkpoint, record_error> load_checkpoint(const std::string& file);

struct found_checkpoint {
  std::optional<checkpoint> newest;  // nothing: no file, or none that verifies
  std::string file;
  std::vector<record_error> refused;  // newer than `newest`, damaged
};
found_checkpoint load_newest_checkpoint(const std::string& folder);

// Paths, newest first, unverified.
std::vector<std::string> checkpoint_files(const std::string& folder);

}  // namespace troupe
