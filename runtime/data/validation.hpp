// Validation split: evaluations on a share of the training examples ([data] validation).
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/data/source.hpp"

namespace troupe {

// A source without round(fraction n) of the n training examples of `of`. These are its test split;
// the test examples of `of` are not in it. The choice depends on n, fraction and seed only, so that
// all nodes make the same one. Both splits have the order of `of`.
std::shared_ptr<const source> with_validation(std::shared_ptr<const source> of, double fraction, std::uint64_t seed);

}  // namespace troupe
