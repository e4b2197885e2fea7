// Conversions between Troupe's values and Python's.
// Threads: all functions need the GIL, except where they say otherwise.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "ops/shape.hpp"
#include "ops/tensor.hpp"
#include "runtime/base/diagnostic.hpp"
#include "runtime/data/file_bytes.hpp"
#include "runtime/record/safetensors.hpp"

namespace troupe::python {

namespace py = pybind11;

// Raised as troupe.JobError: mistakes in a job, in files that it names, or in arguments.
struct job_error : std::runtime_error {
  explicit job_error(diagnostics list);
  explicit job_error(const std::string& message);
  explicit job_error(const record_error& e) : job_error(e.to_string()) {}
  diagnostics mistakes;
};
// Raised as troupe.TrainingError: a run has failed.
struct training_error : std::runtime_error {
  training_error(const std::string& what, std::string where_, std::string post_mortem_)
      : std::runtime_error(what), where(std::move(where_)), post_mortem(std::move(post_mortem_)) {}
  std::string where, post_mortem;
};
void register_errors();

// A Python object that C++ objects own. It may be released on any thread, without the GIL.
using held_object = std::shared_ptr<const py::object>;
held_object held(py::object o);

py::object object_of(const nlohmann::ordered_json& j);
std::string text_of_error(const py::error_already_set& e);  // "ValueError: ..."

py::tuple tuple_of(const shape& s);
shape shape_of(const py::handle& extents, const std::string& whose);  // throws job_error

// A read-only view of the tensor's memory, which it keeps alive.
py::object array_of(const tensor& t);
// A copy of an array's values in a tensor of type `t` and the array's shape. Throws job_error.
tensor tensor_of(const py::handle& array, dtype t, const std::string& name);
named_tensors named_tensors_of(const py::dict& arrays);
py::dict dict_of(const named_tensors& named);  // name -> Tensor

// An array as the bytes of a .npy file, without a copy if it is contiguous.
std::shared_ptr<const random_bytes> npy_bytes_of(const py::handle& array, const std::string& name);

void bind_tensor(py::module_& m);
void bind_job(py::module_& m);
void bind_run(py::module_& m);
void bind_predictor(py::module_& m);
void bind_layer(py::module_& m);
void bind_simulation(py::module_& m);
void bind_cluster(py::module_& m);

}  // namespace troupe::python
