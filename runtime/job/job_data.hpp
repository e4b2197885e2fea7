// A job's data: the order of its examples, and what only they can tell about the file. For the
// files of this folder.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/base/diagnostic.hpp"
#include "runtime/data/sampler.hpp"
#include "runtime/job/job.hpp"

namespace troupe {

std::int64_t eval_examples(const prepared_job& j);  // of a packet
split eval_split(const prepared_job& j);
std::unique_ptr<eval_sampler> make_eval_sampler(const prepared_job& j);
// `seed` is an argument because a loader that is sent a seed for each step (sampler `seeded`) is
// built without the job's.
std::unique_ptr<sampler> make_sampler(const prepared_job& j, std::uint32_t worker, std::uint64_t seed);

// Readers beside one another: as the file says; else one where reading is copying, and where it
// decodes one for each device of the best node, within bounds.
std::uint32_t readers_of(const prepared_job& j);

// What only the opened data can tell about [data] augment.
std::optional<diagnostic> add_augmentation(prepared_job& j);
// What only the data's size can tell about the samplers of training and of evaluation.
std::optional<diagnostic> check_samplers(const prepared_job& j);
// Does everything suit layers that carry state?
std::optional<diagnostic> check_carries(const prepared_job& j);

}  // namespace troupe
