// A prepared job and its records: what it writes of itself, and how it begins with what a job has
// written. Pure: files are read and written by whoever hosts it, in one process or on a node.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/job/job.hpp"
#include "runtime/record/checkpoint.hpp"

namespace troupe {

// --- what it writes

// Of the store "checkpoint". `numerics`: of the device that it computes on.
checkpoint checkpoint_of(const prepared_job& j, const store_effect& s, const std::string& numerics);
// What stands in a file of its weights beside them.
metadata_map weights_metadata(const prepared_job& j, std::uint64_t step);

// --- what it begins with

// Parameters by name (and states of the rule, and what lanes have carried), at a step; of the rest
// nothing is known.
void begin_at(prepared_job& j, std::uint64_t step, named_tensors named);

// At step 0 with the parameters of a file, which may have other tensors too: what begins anew
// begins at rest. Returns the step that the file says they are of (0: it does not say). Where the
// job says so ([checkpoint] match = "names") the file may lack parameters, or have them in another
// shape: those are filled as if it were not there, and which were taken is said when the job begins
// (handover::notes). Errors name `file`.
std::variant<std::uint64_t, record_error> begin_from_weights(prepared_job& j, safetensors_content content, const std::string& file);

// What a checkpoint holds, to go on with as this job, whose plan may be another. Refused is what
// would not give the weights of an unbroken run, unless the job is not deterministic.
std::variant<handover, record_error> handover_for(const prepared_job& j, checkpoint c, const std::string& file,
                                                  const std::string& numerics);

// Goes on where a checkpoint's job stood: a run of its own, whose time begins anew. Refused as
// above. What a person had set holds on, but for keys that `overrides` ("key=value") give anew.
std::optional<record_error> resume_from(prepared_job& j, checkpoint c, const std::string& file, const std::string& numerics,
                                        const std::vector<std::string>& overrides);

}  // namespace troupe
