// Entries of the stock registries, one function per kind; catalog.cpp adds them.
#pragma once

#include "runtime/data/sampler.hpp"
#include "runtime/data/source.hpp"

namespace troupe {

source_type csv_source_type();        // csv.cpp
source_type idx_source_type();        // idx.cpp
source_type packed_source_type();     // packed.cpp
source_type synthetic_source_type();  // synthetic.cpp
source_type text_source_type();       // text.cpp

// The character of csv's option `separator`. Throws option_error.
char csv_separator_of(const options& o);  // csv.cpp

sampler_type shuffle_sampler_type();     // shuffle.cpp
sampler_type sequential_sampler_type();  // sequential.cpp
sampler_type shard_sampler_type();       // shard.cpp
sampler_type own_order_sampler_type();   // own_order.cpp
sampler_type replicate_sampler_type();   // replicate.cpp
sampler_type served_sampler_type();      // served.cpp
sampler_type seeded_sampler_type();      // seeded.cpp
sampler_type sequence_sampler_type();    // sequence_sampler.cpp

eval_sampler_type all_eval_sampler_type();       // eval_samplers.cpp
eval_sampler_type sample_eval_sampler_type();    // eval_samplers.cpp
eval_sampler_type sequence_eval_sampler_type();  // sequence_sampler.cpp

// Checks that there is at least one whole batch. Throws option_error (key "batch").
void check_sampler_config(const sampler_config& c);  // catalog.cpp
// As given, or of a batch that is split evenly.
worker_shares shares_of(const sampler_config& c);  // catalog.cpp

}  // namespace troupe
