// Checkpoints and weights of a prepared job: makes their content, and begins a job with them. Pure:
// the host of the job reads and writes the files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/job/job.hpp"
#include "runtime/record/checkpoint.hpp"

namespace troupe {

// --- writing

// Returns the checkpoint of a store_effect "checkpoint". `numerics`: numerics id of the device that
// the job computes on.
checkpoint checkpoint_of(const prepared_job& j, const store_effect& s, const std::string& numerics);
// Returns the metadata for a file of the job's weights.
metadata_map weights_metadata(const prepared_job& j, std::uint64_t step);

// --- beginning

// Begins the job at a step with these parameters, states of the rule and carried states, by name.
// All other progress is unknown.
void begin_at(prepared_job& j, std::uint64_t step, named_tensors named);

// Begins the job at step 0 with the parameters of a file; other tensors of the file, e.g. states of
// the rule, are ignored. If the job has [train.average] with write = "average", the averages of a
// checkpoint are taken in place of the weights. Returns the step in the file's metadata, 0 if it
// has none. With [checkpoint] match = "names" the file may lack parameters or have them in another
// shape: these are filled, and a note in handover::notes says which were taken. Errors name `file`.
expected<std::uint64_t, record_error> begin_from_weights(prepared_job& j, safetensors_content content, const std::string& file);

// Returns the state of a checkpoint with which this job, possibly with another plan, continues.
// Errors: a difference that would give other weights than an uninterrupted run, unless the job is
// not deterministic.
expected<handover, record_error> handover_for(const prepared_job& j, checkpoint c, const std::string& file,
                                              const std::string& numerics);

// Continues from a checkpoint as a new run, whose time begins at 0. Errors as of handover_for().
// Values that a user had set (`set` command) remain, except for the keys of `overrides`
// ("key=value").
expected<void, record_error> resume_from(prepared_job& j, checkpoint c, const std::string& file, const std::string& numerics,
                                         const std::vector<std::string>& overrides);

}  // namespace troupe
