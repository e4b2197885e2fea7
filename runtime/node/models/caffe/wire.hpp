// .caffemodel files: a NetParameter of caffe.proto in the binary format of Protocol Buffers, as the
// tree of the text format and, apart from it, the blobs (weights) of its layers.
//   BlobProto: num 1, channels 2, height 3, width 4 (the old form, four axes), data 5 (float),
//   diff 6 (not read), shape 7 {dim 1}, double_data 8 (read as float)
// Fields that schema.hpp does not have become fields named "field 123".
// Errors: values. Every length is checked by protozero before it is used. A blob has as many values
// as its shape says.
// Threads: pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/node/models/caffe/prototxt.hpp"

namespace troupe::caffe {

struct blob {
  std::vector<std::int64_t> dims;  // none: a scalar
  bool old_form = false;           // four axes, of which the first may be padding with 1
  std::shared_ptr<const std::vector<float>> values;
  std::string shape_text() const;  // "20x1x5x5"
};

struct binary_net {
  proto_field net;
  std::vector<blob> blobs;  // a field of kind blob has the index as its text
  const blob& blob_of(const proto_field& f) const;
};

expected<binary_net, error> parse_binary_net(const void* data, std::size_t bytes);

// The inverse. Fields must be in schema.hpp; blobs are written in the new form.
// Error: the net does not fit into a message of Protocol Buffers (2 GiB).
expected<std::string, error> binary_of(const binary_net& net);

}  // namespace troupe::caffe
