// One image file: its size, or its pixels. Files of more than 512 MiB are refused.
// Errors: messages without the file's name.  Threads: functions without state.
#pragma once

#include <string>

#include "runtime/base/result.hpp"
#include "runtime/node/images/decode.hpp"

namespace troupe::images {

// Reads the size from the file's header, which is nearly always in its first bytes.
expected<image_size> size_of_image_file(const std::string& path, wanted_size want = {});
image_result read_image(const std::string& path, int channels, wanted_size want = {});

}  // namespace troupe::images
