// Image files that a user gives to a trained net, as a source without labels. All have the test
// split's examples; the training split is empty. Files are decoded when they are read.
// Errors: open_image_list() returns a message that names the file; read() throws
// std::runtime_error with the file's name if an image cannot be decoded.
// Threads: as in source.hpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/data/source.hpp"

namespace troupe {

// `example`: [channels, height, width] of the job's source, with 1 or 3 channels. `scaling`: of its
// bytes. `order`: of the planes of three channels. `resize`: brings images of another size to it;
// otherwise their headers are reason enough to refuse them.
expected<std::shared_ptr<const source>> open_image_list(std::vector<std::string> files, const shape& example,
                                                        const byte_scaling& scaling, channel_order order, bool resize);

}  // namespace troupe
