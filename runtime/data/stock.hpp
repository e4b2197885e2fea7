// Rows of the stock tables, one function a file; catalog.cpp adds them.
#pragma once

#include "runtime/data/sampler.hpp"
#include "runtime/data/source.hpp"

namespace troupe {

source_type idx_source_type();        // idx.cpp
source_type synthetic_source_type();  // synthetic.cpp

sampler_type shuffle_sampler_type();     // shuffle.cpp
sampler_type sequential_sampler_type();  // sequential.cpp

// What every sampler asks of its configuration: at least one whole batch. Throws option_error (key "batch").
void check_sampler_config(const sampler_config& c);  // catalog.cpp

}  // namespace troupe
