// A prepared job, as Python holds it.
#pragma once

#include <memory>
#include <string>

#include "ops/device_descriptors.hpp"
#include "python/module/values.hpp"
#include "runtime/job/job.hpp"
#include "runtime/node/config/prepare_text.hpp"

namespace troupe::python {

struct python_job {
  std::shared_ptr<prepared_job> job;
  job_text what;
  std::shared_ptr<const tables> all;
  device_list devices;
  std::string begun_from;  // the file that it starts from; empty: none
  bool from_checkpoint = false;
};

// The tables of this process with layers that are classes of Python, and the source "arrays".
std::shared_ptr<const tables> tables_with(const py::list& layer_classes, const py::dict& arrays);
// Layer type of a Python class (python/troupe/layer.py).
layer_type type_of_class(const py::object& cls);
// Text and overrides of a job. Loads nothing.
job_text text_of_job(const py::dict& given);

}  // namespace troupe::python
