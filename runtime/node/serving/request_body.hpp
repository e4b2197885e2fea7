// The examples in the body of a request: a .npy file, a PNG or JPEG image, or JSON, recognised by
// its first bytes.
//   {"examples": [[0.1, 0.2], ...]}   nested lists of the example's shape, or flat
// Numbers of JSON and floats of .npy are values as the job's source delivers them; with raw = true,
// and integers of .npy and images always, they are scaled as in training.
// Errors: values that name the example. Any bytes give examples or an error; reading ends at the
// first mistake. Memory: that of the values, for JSON. Threads: pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/job/job.hpp"

namespace troupe {

struct request_examples {
  std::vector<float> values;  // [n, example...]
  std::int64_t n = 0;
};

// `most`: examples that a request may have.
expected<request_examples> examples_of_body(const std::string& body, const prepared_job& j, bool raw, std::int64_t most);

}  // namespace troupe
