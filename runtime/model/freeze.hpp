// `freeze` of [train]: patterns of names of layers ("conv1") and parameters ("conv1.weight"). What
// they match keeps its value: trained parameters have the multipliers 0, and running statistics
// are not folded. '*' matches any text, also with dots in it, '?' one character.
#pragma once

#include <string_view>

#include "runtime/base/diagnostic.hpp"
#include "runtime/model/graph.hpp"
#include "runtime/spec/job_spec.hpp"

namespace troupe {

// True if all of `text` matches. The cost is at most the product of the lengths.
bool matches_pattern(std::string_view text, std::string_view pattern);

// Marks the parameters that the patterns of the job match. A pattern that matches none is a
// mistake, and so is a job that trains none.
void freeze_parameters(model_graph& g, const job_spec& job, diagnostics& errors);

}  // namespace troupe
