// Models of Caffe: .prototxt (net, solver, files of relatives of Caffe) and .caffemodel.
#pragma once

#include "runtime/node/models/model_format.hpp"

namespace troupe {

model_format caffe_format();

}  // namespace troupe
