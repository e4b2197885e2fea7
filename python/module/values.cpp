#include "python/module/values.hpp"

#include <pybind11/numpy.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "ops/device.hpp"

namespace troupe::python {
namespace {

std::string text_of(const diagnostics& list) {
  std::string text;
  for (const auto& d : list) text += (text.empty() ? "" : "\n") + d.to_string();
  return text;
}

void raise(const char* type, const py::object& arguments) {
  const auto error = py::module_::import("troupe.errors").attr(type);
  const py::object made = error(*py::tuple(arguments));
  PyErr_SetObject(error.ptr(), made.ptr());
}

void translate(std::exception_ptr p) {
  try {
    if (p) std::rethrow_exception(p);
  } catch (const job_error& e) {
    py::list mistakes;
    for (const auto& d : e.mistakes) mistakes.append(py::make_tuple(d.at.file, d.at.line, d.at.column, d.message));
    raise("JobError", py::make_tuple(std::string(e.what()), mistakes));
  } catch (const training_error& e) {
    raise("TrainingError", py::make_tuple(std::string(e.what()), e.where, e.post_mortem));
  }
}

// The bytes of a .npy file: a header, and an array's memory.
class array_bytes final : public random_bytes {
 public:
  array_bytes(std::string header, const void* data, std::size_t bytes, held_object owner)
      : header_(std::move(header)), data_(static_cast<const char*>(data)), bytes_(bytes), owner_(std::move(owner)) {}
  std::uint64_t size() const override { return header_.size() + bytes_; }
  expected<void> read(std::uint64_t at, void* out, std::size_t n) const override {
    if (at > size() || n > size() - at) return unexpected(error("it is truncated"));
    auto* to = static_cast<char*>(out);
    if (at < header_.size()) {
      const auto first = std::min(n, static_cast<std::size_t>(header_.size() - at));
      std::memcpy(to, header_.data() + at, first);
      to += first, n -= first, at += first;
    }
    if (n > 0) std::memcpy(to, data_ + (at - header_.size()), n);
    return {};
  }

 private:
  const std::string header_;
  const char* const data_;
  const std::size_t bytes_;
  const held_object owner_;
};

}  // namespace

job_error::job_error(diagnostics list) : std::runtime_error(text_of(list)), mistakes(std::move(list)) {}
job_error::job_error(const std::string& text) : std::runtime_error(text), mistakes(1) { mistakes[0].message = text; }

void register_errors() { py::register_exception_translator(&translate); }

held_object held(py::object o) {
  return {new py::object(std::move(o)), [](const py::object* p) {
            if (!Py_IsInitialized()) return;  // the interpreter has ended: the process is about to
            const py::gil_scoped_acquire guard;
            delete p;
          }};
}

py::object object_of(const nlohmann::ordered_json& j) {
  switch (j.type()) {
    case nlohmann::ordered_json::value_t::null: return py::none();
    case nlohmann::ordered_json::value_t::boolean: return py::bool_(j.get<bool>());
    case nlohmann::ordered_json::value_t::number_integer: return py::int_(j.get<std::int64_t>());
    case nlohmann::ordered_json::value_t::number_unsigned: return py::int_(j.get<std::uint64_t>());
    case nlohmann::ordered_json::value_t::number_float: return py::float_(j.get<double>());
    case nlohmann::ordered_json::value_t::string: return py::str(j.get_ref<const std::string&>());
    case nlohmann::ordered_json::value_t::array: {
      py::list list;
      for (const auto& x : j) list.append(object_of(x));
      return list;
    }
    default: break;
  }
  py::dict dict;
  for (const auto& [key, value] : j.items()) dict[py::str(key)] = object_of(value);
  return dict;
}

std::string text_of_error(const py::error_already_set& e) {
  return py::str(e.type().attr("__name__")).cast<std::string>() + ": " + py::str(e.value()).cast<std::string>();
}

py::tuple tuple_of(const shape& s) {
  py::tuple t(static_cast<std::size_t>(s.rank()));
  for (int i = 0; i < s.rank(); ++i) t[static_cast<std::size_t>(i)] = s[i];
  return t;
}

shape shape_of(const py::handle& extents, const std::string& whose) {
  const auto wrong = [&](const std::string& what) {
    return job_error("the shape of " + whose + " " + what + ", got " + py::repr(extents).cast<std::string>());
  };
  if (!py::isinstance<py::sequence>(extents)) throw wrong("must be a tuple of integers");
  const auto list = py::reinterpret_borrow<py::sequence>(extents);
  if (list.size() > static_cast<std::size_t>(shape::max_rank))
    throw wrong("must have at most " + std::to_string(shape::max_rank) + " dimensions");
  shape s;
  for (const auto& e : list) {
    if (!PyIndex_Check(e.ptr())) throw wrong("must be a tuple of integers");
    const auto n = e.cast<std::int64_t>();
    if (n < 1) throw wrong("must have extents of at least 1");
    s.push_back(n);
  }
  return s;
}

std::shared_ptr<const random_bytes> npy_bytes_of(const py::handle& array, const std::string& name) {
  const auto numpy = py::module_::import("numpy"), format = py::module_::import("numpy.lib.format");
  py::object a;
  try {
    a = numpy.attr("ascontiguousarray")(array);
  } catch (const py::error_already_set& e) {
    throw job_error(name + ": is no array: " + text_of_error(e));
  }
  const auto file = py::module_::import("io").attr("BytesIO")();
  format.attr("write_array_header_1_0")(file, format.attr("header_data_from_array_1_0")(a));
  const auto values = py::reinterpret_borrow<py::array>(a);
  return std::make_shared<array_bytes>(file.attr("getvalue")().cast<std::string>(), values.data(),
                                       static_cast<std::size_t>(values.nbytes()), held(a));
}

}  // namespace troupe::python
