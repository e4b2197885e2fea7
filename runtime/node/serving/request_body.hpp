// The examples in the body of a request: a .npy file, a PNG or JPEG image, or JSON, recognised by
// its first bytes.
//   {"examples": [[0.1, 0.2], ...]}   nested lists of the example's shape, or flat
// Numbers of JSON and floats of .npy are values as the job's source delivers them; with raw = true,
// and integers of .npy and images always, they are scaled as in training. Images of another size
// are resized if those of the training were, or with resize = true.
// Errors: values that name the example. Any bytes give examples or an error; reading ends at the
// first mistake. Memory: that of the values, for JSON. Threads: pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/job/job.hpp"

namespace troupe {

struct request_examples {
  std::vector<float> values;  // [n, example...]
  std::int64_t n = 0;
  std::int64_t pixels = 0;  // of images that were resized
};

// Pixels of an image that may be resized, and of all of a request unless body_options has another
// number: any client may send them.
inline constexpr std::int64_t most_resized_pixels = std::int64_t{1} << 24, most_request_pixels = std::int64_t{1} << 26;

struct body_options {
  bool raw = false, resize = false;
  std::int64_t pixels = most_request_pixels;  // of all resized images of a request together
};

// `most`: examples that a request may have. `resized`: pixels of the images of the request that
// were resized before this body.
expected<request_examples> examples_of_body(std::string_view body, const prepared_job& j, const body_options& o, std::int64_t most,
                                            std::int64_t resized = 0);

}  // namespace troupe
