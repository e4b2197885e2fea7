// A job's data: its samplers, and checks of the job file that need the opened data. Internal to
// this folder.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/base/diagnostic.hpp"
#include "runtime/base/result.hpp"
#include "runtime/data/sampler.hpp"
#include "runtime/job/job.hpp"

namespace troupe {

// What a graph needs to know about the source. `example`: as the net receives it (augmented).
example_facts example_facts_of(const source& s, const shape& example);

// The opened source with its validation split. Throws option_error.
std::shared_ptr<const source> open_data(const source_type& type, const data_spec& d, std::uint64_t seed);

std::int64_t eval_examples(const prepared_job& j);  // examples of an evaluation's packet
split eval_split(const prepared_job& j);
std::unique_ptr<eval_sampler> make_eval_sampler(const prepared_job& j);
// `seed` is an argument because the loaders of sampler `seeded`, which receive a seed for each
// step, are made without the job's seed.
std::unique_ptr<sampler> make_sampler(const prepared_job& j, std::uint32_t worker, std::uint64_t seed);

// Returns the number of parallel readers: `readers` of the file; else 1 if the source only copies,
// or, if it decodes, the largest number of devices of a node, between 2 and 8.
std::uint32_t readers_of(const prepared_job& j);

// Sets the job's augmentation; checks [data] augment against the opened data.
expected<void, diagnostic> add_augmentation(prepared_job& j);
// Replaces class_weights = "balanced" of layers by numbers: n / (classes n[c]) for a class with
// n[c] of the n labels of the training examples, 0 for a class without. Reads every training
// example then.
expected<void, diagnostic> balance_classes(prepared_job& j);
// Checks the samplers of training and evaluation against the size of the data.
expected<void, diagnostic> check_samplers(const prepared_job& j);
// Checks that sampler and mode suit layers that carry state.
expected<void, diagnostic> check_carries(const prepared_job& j);

}  // namespace troupe
