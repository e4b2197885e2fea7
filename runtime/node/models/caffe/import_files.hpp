// Reads the files of one model: a net (.prototxt), weights (.caffemodel), a solver, files of nodes.
// A .caffemodel alone is its own net.
#pragma once

#include "runtime/node/models/model_format.hpp"

namespace troupe::caffe {

expected<imported_model, diagnostics> import_files(const import_request& asked);

// The same for contents, for tests: {name of the file, bytes}.
struct named_text {
  std::string file;
  std::string bytes;
};
expected<imported_model, diagnostics> import_texts(const std::vector<named_text>& files, const name_pairs& names);

}  // namespace troupe::caffe
