#include "runtime/node/models/caffe/caffe_format.hpp"

#include "runtime/node/models/caffe/export_net.hpp"
#include "runtime/node/models/caffe/import_files.hpp"

namespace troupe {

model_format caffe_format() {
  return {"caffe",
          "nets, weights and solvers of Caffe, also of Caffe con Troll and of multi-node Caffe",
          {".prototxt", ".caffemodel"},
          caffe::import_files,
          [](const prepared_job& j, const named_tensors& weights, const export_request& asked) {
            return caffe::export_net(j, weights, asked.names);
          }};
}

}  // namespace troupe
