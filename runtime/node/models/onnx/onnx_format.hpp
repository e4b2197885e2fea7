// ONNX models (.onnx): both ways, without libonnx or libprotobuf.
#pragma once

#include "runtime/node/models/model_format.hpp"

namespace troupe {

model_format onnx_format();

}  // namespace troupe
