// Tensors as arrays of NumPy and, by DLPack, of other libraries. Views share the tensor's memory.
#include <dlpack/dlpack.h>
#include <pybind11/numpy.h>

#include <cstring>

#include "ops/device.hpp"
#include "python/module/values.hpp"

namespace troupe::python {
namespace {

const char* type_name(dtype t) {
  switch (t) {
    case dtype::f32: return "float32";
    case dtype::f64: return "float64";
    case dtype::i32: return "int32";
    case dtype::bf16: return "bfloat16";
    default: return "uint8";
  }
}

py::dtype numpy_type(const tensor& t) {
  switch (t.type()) {
    case dtype::f32: return py::dtype::of<float>();
    case dtype::f64: return py::dtype::of<double>();
    case dtype::i32: return py::dtype::of<std::int32_t>();
    case dtype::bf16: throw py::type_error("NumPy has no bfloat16; torch.from_dlpack(tensor) reads it");
    default: return py::dtype::of<std::uint8_t>();
  }
}

DLDataType dlpack_type(dtype t) {
  const auto bits = static_cast<std::uint8_t>(8 * size_of(t));
  const auto code = t == dtype::i32                      ? kDLInt
                    : t == dtype::bf16                   ? kDLBfloat
                    : t == dtype::f32 || t == dtype::f64 ? kDLFloat
                                                         : kDLUInt;
  return {static_cast<std::uint8_t>(code), bits, 1};
}

// A tensor that a consumer of DLPack holds.
struct lent_tensor {
  explicit lent_tensor(tensor t) : value(std::move(t)), shape(static_cast<std::size_t>(value.dims().rank())) {
    for (std::size_t i = 0; i < shape.size(); ++i) shape[i] = value.dims()[static_cast<int>(i)];
    managed.dl_tensor = {
        const_cast<void*>(value.raw()), {kDLCPU, 0}, value.dims().rank(), dlpack_type(value.type()), shape.data(), nullptr, 0};
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensor* m) { delete static_cast<lent_tensor*>(m->manager_ctx); };
  }
  tensor value;
  std::vector<std::int64_t> shape;
  DLManagedTensor managed{};
};

py::capsule lend(const tensor& t) {
  auto lent = std::make_unique<lent_tensor>(t);
  // A consumer renames the capsule and calls the deleter itself.
  py::capsule c(&lent->managed, "dltensor", [](PyObject* o) {
    if (!PyCapsule_IsValid(o, "dltensor")) return;
    auto* m = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(o, "dltensor"));
    m->deleter(m);
  });
  static_cast<void>(lent.release());
  return c;
}

}  // namespace

py::object array_of(const tensor& t) {
  std::vector<py::ssize_t> extents;
  for (int i = 0; i < t.dims().rank(); ++i) extents.push_back(static_cast<py::ssize_t>(t.dims()[i]));
  const auto owner = py::capsule(new tensor(t), [](void* p) { delete static_cast<tensor*>(p); });
  py::array a(numpy_type(t), extents, t.raw(), owner);
  py::detail::array_proxy(a.ptr())->flags &= ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
  return a;
}

tensor tensor_of(const py::handle& array, dtype t, const std::string& name) {
  const auto numpy = py::module_::import("numpy");
  py::object a;
  try {
    a = numpy.attr("ascontiguousarray")(numpy.attr("asarray")(array), type_name(t));
  } catch (const py::error_already_set& e) {
    throw job_error(name + ": is no array of numbers: " + text_of_error(e));
  }
  const auto values = py::reinterpret_borrow<py::array>(a);
  if (values.ndim() > shape::max_rank)
    throw job_error(name + ": has " + std::to_string(values.ndim()) + " dimensions, at most " + std::to_string(shape::max_rank));
  shape s;
  const auto given = py::reinterpret_borrow<py::array>(numpy.attr("asarray")(array));  // ascontiguousarray makes scalars 1-D
  for (py::ssize_t i = 0; i < given.ndim(); ++i) s.push_back(given.shape(i));
  const auto memory = std::make_shared<std::vector<double>>(static_cast<std::size_t>(values.nbytes()) / sizeof(double) + 1);
  std::memcpy(memory->data(), values.data(), static_cast<std::size_t>(values.nbytes()));
  return tensor::adopt(memory, memory->data(), s, t);
}

named_tensors named_tensors_of(const py::dict& arrays) {
  named_tensors named;
  for (const auto& [key, value] : arrays) {
    const auto name = py::str(key).cast<std::string>();
    if (py::isinstance<tensor>(value)) {
      named.emplace_back(name, value.cast<tensor>());
      continue;
    }
    const auto kind = py::str(py::module_::import("numpy").attr("asarray")(value).attr("dtype")).cast<std::string>();
    named.emplace_back(name, tensor_of(value, kind == "float64" ? dtype::f64 : dtype::f32, name));
  }
  return named;
}

py::dict dict_of(const named_tensors& named) {
  py::dict d;
  for (const auto& [name, value] : named) d[py::str(name)] = py::cast(value);
  return d;
}

void bind_tensor(py::module_& m) {
  py::class_<tensor>(m, "Tensor", "Numbers in Troupe's memory. numpy() and DLPack give views of it, without a copy.")
      .def_property_readonly("shape", [](const tensor& t) { return tuple_of(t.dims()); })
      .def_property_readonly("dtype", [](const tensor& t) { return type_name(t.type()); })
      .def("numpy", &array_of, "A read-only view as an array of NumPy.")
      .def(
          "__array__",
          [](const tensor& t, const py::object& type) {
            const auto a = array_of(t);
            return type.is_none() ? a : a.attr("astype")(type, py::arg("copy") = false);
          },
          py::arg("dtype") = py::none())
      .def(
          "__dlpack__", [](const tensor& t, const py::object&) { return lend(t); }, py::arg("stream") = py::none())
      .def("__dlpack_device__", [](const tensor&) { return py::make_tuple(static_cast<int>(kDLCPU), 0); })
      .def("__len__",
           [](const tensor& t) {
             if (t.dims().rank() == 0) throw py::type_error("len() of a scalar");
             return t.dims()[0];
           })
      .def("__repr__", [](const tensor& t) { return "Tensor(" + t.dims().to_string() + ", " + type_name(t.type()) + ")"; });
  m.def("read_safetensors", [](const std::string& file) {
    auto read = read_safetensors(file);
    if (!read) throw job_error(read.error());
    return dict_of(read->named);
  });
  m.def("write_safetensors", [](const std::string& file, const py::dict& arrays) {
    if (const auto written = write_safetensors(file, named_tensors_of(arrays), {{"format", "pt"}}); !written)
      throw job_error(written.error());
  });
}

}  // namespace troupe::python
