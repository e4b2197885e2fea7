// What a job predicts: the tensor that its loss compares with the targets, and what its values
// mean.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/model/graph.hpp"

namespace troupe {

// What the values of one output mean.
enum class answer : std::uint8_t {
  softmax,  // one class; the values are scores, and their softmax are the probabilities
  sigmoid,  // one class, or yes and no if there is one value; sigmoids of the values are the probabilities
  scores,   // one class, without probabilities
  values    // numbers (regression), also those of a layer that the user names
};

struct prediction {
  tensor_ref what;
  answer meaning = answer::values;
};

// The prediction of the last loss whose prediction is computed in tests and which an accuracy layer
// reads too, if there is one; of the last loss otherwise. Without a loss in tests: the scores of an
// accuracy layer.
expected<prediction> prediction_of(const model_graph& g);

// One answer of the net by class: probabilities, or scores if they have none. A single value
// becomes those of no and yes.
std::vector<double> by_class(answer meaning, std::vector<double> values);
// The most probable `most` classes of by_class(), best first; the lower of equal ones. Each is -1
// if a value is NaN.
std::vector<std::int64_t> best_classes(const std::vector<double>& values, std::size_t most);

constexpr bool from_label(tensor_ref t) { return t == tensor_ref{from_data, 1}; }

}  // namespace troupe
