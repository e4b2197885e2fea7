// Describes a GPU for users (gpu_backend::describe).
#pragma once

#include <memory>
#include <string>

#include "ops/cuda/gpu.hpp"
#include "ops/gpu.hpp"

namespace troupe::cuda {

// `open`: the GPU as this process uses it; null: it does not. `earlier`: as in
// gpu_backend::describe. Throws cuda_error if there is no such GPU. If it does not answer,
// `failure` says why.
gpu_facts facts_of(int number, const gpu* open, const gpu_facts* earlier);

std::string cuda_version_text(int v);  // 13000: "13.0"

}  // namespace troupe::cuda
