// Net files (.troupe): a trained net for predictions, in one file. It holds the job, the weights,
// and what predictions need to know about the data (shapes, scaling, names of classes), so that the
// data need not be there. The format is safetensors; __metadata__ has "troupe_net" (the version),
// "job" (the resolved job file) and "data" (JSON).
//
// Weights are f32, or smaller: bf16, or int8 with a scale for each row of axis 0 (value = (byte -
// 128) * scale; tensors NAME as u8 and NAME@scale as f32). Only parameters of two or more axes are
// made smaller. They become f32 when the file is read, and all maths is in the job's precision.
// Errors: diagnostics that name the file and the tensor. Threads: pure functions.
#pragma once

#include <memory>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/job/job.hpp"
#include "runtime/record/safetensors.hpp"

namespace troupe {

enum class net_weights : std::uint8_t { f32, bf16, int8 };
inline constexpr const char* net_weights_names[] = {"f32", "bf16", "int8"};

// The bytes of a net file. `weights`: every parameter of the job's graph, by name. An error if the
// job has no prediction.
expected<std::string, diagnostics> net_file_bytes(const prepared_job& j, const named_tensors& weights, net_weights kept);

// The job of a net file, for one thread, with its weights. Its source has the shapes of the data
// and no examples.
expected<std::shared_ptr<prepared_job>, diagnostics> open_net_file(const std::string& file);
// The same for a file's bytes, which `owner` keeps alive.
expected<std::shared_ptr<prepared_job>, diagnostics> read_net_file(std::shared_ptr<const void> owner, const void* data,
                                                                   std::size_t bytes, const std::string& file);

}  // namespace troupe
