// Caffe's record of an example, message Datum of caffe.proto, in the wire format of Protocol
// Buffers:
//   1 channels, 2 height, 3 width (int32)      4 data (bytes, [channels][height][width])
//   5 label (int32)                            6 float_data (repeated float)
//   7 encoded (bool): `data` is an image file
// Errors: values. Any bytes give a record or an error; nothing is allocated.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/base/result.hpp"

namespace troupe {

struct datum {
  std::int64_t channels = 0, height = 0, width = 0, label = 0;
  bool encoded = false;
  std::span<const std::uint8_t> data;  // points into the record
  std::size_t floats = 0;              // values of float_data
  std::int64_t count() const { return channels * height * width; }
};

// A record that is not encoded has at least one value, and as many as its extents say: bytes or
// floats.
expected<datum> parse_datum(std::span<const std::uint8_t> record);
// Writes the `datum::floats` values of a record that parse_datum() has accepted.
void copy_floats(std::span<const std::uint8_t> record, float* out);

}  // namespace troupe
