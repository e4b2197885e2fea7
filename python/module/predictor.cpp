// Predictions of a trained net for arrays of Python.
#include "runtime/plain/predictor.hpp"
#include <pybind11/numpy.h>

#include <cmath>
#include <cstring>

#include "python/module/job.hpp"
#include "runtime/data/inputs.hpp"
#include "runtime/job/record.hpp"

namespace troupe::python {
namespace {

class python_predictor {
 public:
  // `j`: with its weights.
  python_predictor(const python_job& j, const std::string& layer) : job_(j.job) {
    auto made = predictor::make(job_, make_devices(job_->nodes.front().devices).front(), layer);
    if (!made) throw job_error(diagnostics{made.error()});
    net_ = *std::move(made);
  }

  // [n, width], or [n, positions, width] for sequences. `raw`: floats are scaled as the job's
  // source scales its numbers.
  py::array run(const py::object& examples, bool raw) {
    auto format = input_format_of(*job_->data, job_->spec.data.source, job_->spec.data.values);
    format.scales_floats = raw;
    auto opened = npy_input_of("the array", npy_bytes_of(examples, "the array"), format);
    if (!opened) throw job_error(opened.error().text);
    const auto& from = **opened;
    const auto n = from.size(split::test);
    std::vector<py::ssize_t> extents{n};
    if (net_->positions() > 1) extents.push_back(net_->positions());
    extents.push_back(net_->width());
    py::array_t<double> values(extents);
    auto* out = values.mutable_data();
    const py::gil_scoped_release free;
    for (std::int64_t first = 0; first < n; first += net_->batch()) {
      const auto r = net_->run(from, first);
      std::memcpy(out, r.values.data(), r.values.size() * sizeof(double));
      out += r.values.size();
    }
    return values;
  }

  const char* meaning() const {
    switch (net_->meaning()) {
      case answer::softmax: return "softmax";
      case answer::sigmoid: return "sigmoid";
      case answer::scores: return "scores";
      default: return "values";
    }
  }
  std::int64_t classes() const { return net_->classes(); }

 private:
  std::shared_ptr<const prepared_job> job_;
  std::unique_ptr<predictor> net_;
};

}  // namespace

void bind_predictor(py::module_& m) {
  py::class_<python_predictor>(m, "Predictor")
      .def(py::init<const python_job&, const std::string&>())
      .def("run", &python_predictor::run)
      .def_property_readonly("meaning", &python_predictor::meaning)
      .def_property_readonly("classes", &python_predictor::classes);
}

}  // namespace troupe::python
