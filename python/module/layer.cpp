// Layers that are classes of Python: prototypes, checked by check_layer like any other layer. Their
// passes run one at a time, under the GIL. The methods are described in python/troupe/layer.py.
#include "ops/layer.hpp"
#include <pybind11/numpy.h>

#include <cstring>
#include <map>

#include "ops/check_layer.hpp"
#include "ops/filler.hpp"
#include "ops/layer_support.hpp"
#include "python/module/job.hpp"

namespace troupe::python {
namespace {

// The class and its options, read once.
struct layer_class {
  held_object type;
  std::string name;
  bool loss = false, metric = false;
  std::vector<bool> differentiable;  // by input; the last holds for further ones
  int inputs = 1, outputs = 1;
};

py::object value_of(const option_value& v) {
  return std::visit(
      [](const auto& x) -> py::object {
        if constexpr (std::is_same_v<std::decay_t<decltype(x)>, std::shared_ptr<options>>)
          return py::none();
        else
          return py::cast(x);
      },
      v);
}

py::tuple tuples_of(const shapes& list) {
  py::tuple t(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) t[i] = tuple_of(list[i]);
  return t;
}

py::tuple arrays_of(const tensors& list) {
  py::tuple t(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) t[i] = list[i].backed() ? array_of(list[i]) : py::none();
  return t;
}

// The results of a pass as a tuple: a single array stands for one result.
py::tuple results_of(const py::object& made) {
  if (py::isinstance<py::tuple>(made)) return py::reinterpret_borrow<py::tuple>(made);
  if (py::isinstance<py::list>(made)) return py::tuple(made);
  return py::make_tuple(made);
}

class python_layer final : public layer {
 public:
  python_layer(layer_class of, py::object self) : of_(std::move(of)), self_(held(std::move(self))) {}

  shapes infer(const shapes& in) const override {
    return guarded("shapes", [&] {
      const auto made = object().attr("shapes")(*tuples_of(in));
      // A tuple of integers is one shape; a list, or a tuple of tuples, has one for each output.
      const bool one =
          py::isinstance<py::sequence>(made) && py::len(made) > 0 && PyIndex_Check(py::object(made[py::int_(0)]).ptr());
      shapes out;
      if (one || py::len(made) == 0)
        out.push_back(shape_of(made, "output 0"));
      else
        for (const auto& s : made) out.push_back(shape_of(s, "output " + std::to_string(out.size())));
      return out;
    });
  }
  signatures supported() const override {
    const auto n = static_cast<std::size_t>(of_.inputs), m = static_cast<std::size_t>(of_.outputs);
    signature s;
    s.inputs.assign(n, distribution::split_0);
    s.outputs.assign(m, distribution::split_0);
    if (of_.loss || of_.metric) s.outputs[0] = distribution::partial;
    return {s};
  }
  param_specs params(const shapes& in) const override {
    return guarded("parameters", [&] {
      param_specs list;
      const auto made = object().attr("parameters")(*tuples_of(in));
      for (const auto& [name, given] : py::dict(made)) list.push_back(parameter(py::str(name), given));
      return list;
    });
  }
  struct backward_needs backward_needs(const shapes& in) const override {
    return {.inputs = true, .outputs = true, .saved_bytes = saved_bytes(in)};
  }
  bool is_loss() const override { return of_.loss; }
  bool is_metric() const override { return of_.metric; }
  bool test_phase_only() const override { return of_.metric; }
  bool differentiable(std::size_t input) const override {
    return of_.differentiable.empty() || of_.differentiable[std::min(input, of_.differentiable.size() - 1)];
  }

  void forward(context& c, plan&, const tensors& in, const tensors& params, tensors& out, saved& s) const override {
    guarded("forward", [&] {
      const auto pass = new_pass(c);
      pass.attr("parameters") = arrays_of(params);
      const auto made = results_of(object().attr("forward")(pass, *arrays_of(in)));
      if (made.size() != out.size())
        throw std::runtime_error("returned " + std::to_string(made.size()) + " arrays, the layer has " +
                                 std::to_string(out.size()) + " outputs");
      for (std::size_t i = 0; i < out.size(); ++i) copy(c.dev, made[i], out[i], "output " + std::to_string(i), false);
      for (const auto& kept : py::list(pass.attr("saved")))
        s.extra.push_back(tensor_of(kept, type_of_saved(kept, in.empty() ? dtype::f32 : in[0].type()), "a saved array"));
      return 0;
    });
  }

  void backward(context& c, plan&, const saved& s, const tensors& params, const tensors& grad_out, tensors& grad_in,
                tensors& grad_params, bool accumulate) const override {
    guarded("backward", [&] {
      const auto pass = new_pass(c);
      pass.attr("parameters") = arrays_of(params);
      pass.attr("inputs") = arrays_of(s.inputs);
      pass.attr("outputs") = arrays_of(s.outputs);
      pass.attr("saved") = py::list(arrays_of(s.extra));
      const auto made = results_of(object().attr("backward")(pass, *arrays_of(grad_out)));
      const auto wanted_results = grad_in.size() + grad_params.size();
      if (made.size() != wanted_results)
        throw std::runtime_error("returned " + std::to_string(made.size()) + " gradients; wanted are " +
                                 std::to_string(wanted_results) + ": one for each input, then one for each parameter");
      for (std::size_t i = 0; i < made.size(); ++i) {
        const bool input = i < grad_in.size();
        auto& to = input ? grad_in[i] : grad_params[i - grad_in.size()];
        if (to) copy(c.dev, made[i], to, "gradient " + std::to_string(i), !input && accumulate);
      }
      return 0;
    });
  }

 private:
  const py::object& object() const { return *self_; }

  // Calls `f` with the GIL. An exception of Python becomes a shape_error, so that the graph reports
  // it with the layer's name.
  template <class F>
  auto guarded(const char* method, F f) const -> decltype(f()) {
    const py::gil_scoped_acquire guard;
    const auto place = of_.name + "." + method + "(): ";
    try {
      return f();
    } catch (const py::error_already_set& e) {
      throw shape_error(place + text_of_error(e));
    } catch (const std::exception& e) {
      throw shape_error(place + e.what());
    }
  }

  static py::object new_pass(bool training, std::uint64_t step, std::uint64_t seed, std::uint64_t first_example) {
    return py::module_::import("troupe.layer").attr("Pass")(training, step, seed, first_example);
  }
  static py::object new_pass(const context& c) { return new_pass(c.ph == phase::train, c.step, c.seed, c.first_example); }

  // What forward() saves, found by calling it with zeros, once for these shapes. 0 if it fails: the
  // first pass then reports the failure.
  std::int64_t saved_bytes(const shapes& in) const {
    const py::gil_scoped_acquire guard;
    const auto key = to_string(in);
    if (const auto known = saved_.find(key); known != saved_.end()) return known->second;
    std::int64_t bytes = 0;
    try {
      for (const auto& kept : py::list(passed_with_zeros(in).attr("saved")))
        bytes += static_cast<std::int64_t>(tensor_of(kept, type_of_saved(kept, dtype::f32), "a saved array").bytes());
    } catch (const std::exception&) {
      bytes = 0;
    }
    return saved_[key] = bytes;
  }

  py::object passed_with_zeros(const shapes& in) const {
    const auto zeros = [](const auto& list, auto&& dims) {
      py::tuple t(list.size());
      for (std::size_t i = 0; i < list.size(); ++i)
        t[i] = py::module_::import("numpy").attr("zeros")(tuple_of(dims(list[i])), "float32");
      return t;
    };
    const auto pass = new_pass(true, 0, 0, 0);
    pass.attr("parameters") = zeros(params(in), [](const param_spec& p) { return p.dims; });
    object().attr("forward")(pass, *zeros(in, [](const shape& s) { return s; }));
    return pass;
  }

  static dtype type_of_saved(const py::handle& a, dtype fallback) {
    const auto kind = py::str(py::module_::import("numpy").attr("asarray")(a).attr("dtype")).cast<std::string>();
    return kind == "float64" ? dtype::f64 : kind == "float32" ? dtype::f32 : kind == "int32" ? dtype::i32 : fallback;
  }

  static param_spec parameter(const std::string& name, const py::handle& given) {
    param_spec p;
    p.name = name;
    const auto shape_and_filler = py::isinstance<py::dict>(given);
    p.dims =
        shape_of(shape_and_filler ? py::object(given["shape"]) : py::reinterpret_borrow<py::object>(given), "parameter " + name);
    options table;
    if (shape_and_filler)
      for (const auto& [key, value] : py::dict(given["filler"])) {
        const auto word = py::str(key).cast<std::string>();
        if (py::isinstance<py::str>(value))
          table.values[word] = value.cast<std::string>();
        else
          table.values[word] = value.cast<double>();
      }
    p.filler = filler_from(table, "constant");
    return p;
  }

  // Writes an array to `to`, or adds it.
  static void copy(device& d, const py::handle& array, tensor& to, const std::string& what, bool add) {
    const auto values = tensor_of(array, to.type(), what);
    if (values.dims() != to.dims() && !(to.count() == 1 && values.count() == 1))
      throw std::runtime_error(what + " has the shape " + values.dims().to_string() + ", expected " + to.dims().to_string());
    const auto same = values.reshaped(to.dims());
    to.back(d);
    if (add)
      d.apply(binary::add, to, same, to);
    else
      std::memcpy(to.raw_mutable(), same.raw(), same.bytes());
  }

  layer_class of_;
  held_object self_;
  mutable std::map<std::string, std::int64_t> saved_;  // by input shapes; protected by the GIL
};

option_spec spec_of(const std::string& name, const py::handle& fallback, const std::string& doc) {
  if (py::isinstance<py::bool_>(fallback)) return flag_option(name, fallback.cast<bool>(), doc);
  if (py::isinstance<py::int_>(fallback)) return option_of(name, option_kind::integer, fallback.cast<std::int64_t>(), doc);
  if (py::isinstance<py::float_>(fallback)) return option_of(name, option_kind::real, fallback.cast<double>(), doc);
  if (py::isinstance<py::str>(fallback)) return option_of(name, option_kind::text, fallback.cast<std::string>(), doc);
  throw job_error("the option '" + name + "' has the default " + py::repr(fallback).cast<std::string>() +
                  ": options of layers are bool, int, float or str");
}

options options_of_dict(const py::dict& given, const option_specs& specs) {
  options o;
  for (const auto& [key, value] : given) {
    const auto name = py::str(key).cast<std::string>();
    if (py::isinstance<py::bool_>(value))
      o.values[name] = value.cast<bool>();
    else if (py::isinstance<py::int_>(value))
      o.values[name] = value.cast<std::int64_t>();
    else if (py::isinstance<py::float_>(value))
      o.values[name] = value.cast<double>();
    else
      o.values[name] = py::str(value).cast<std::string>();
  }
  return check_options(o, specs);
}

layer_case case_of(const layer_type& type, const py::handle& given, std::size_t number) {
  // A list of shapes; or (shapes, options).
  auto list = py::reinterpret_borrow<py::object>(given);
  py::dict values;
  if (py::isinstance<py::tuple>(given) && py::len(given) == 2 && py::isinstance<py::dict>(list[py::int_(1)])) {
    values = list[py::int_(1)];
    list = list[py::int_(0)];
  }
  layer_case c;
  c.name = "case " + std::to_string(number);
  c.given = options_of_dict(values, type.specs);
  for (const auto& s : list) c.in.push_back(shape_of(s, "an input of " + c.name));
  return c;
}

py::list check(const py::object& cls, int samples) {
  const auto type = type_of_class(cls);
  layer_check how;
  how.samples = samples;
  std::vector<std::string> found;
  {
    const py::gil_scoped_release free;
    const auto dev = make_cpu_device();
    if (type.cases.empty()) found.emplace_back("the class has no cases to check: cases = [[(2, 3)], ...]");
    for (const auto& c : type.cases) {
      try {
        for (auto& f : check_layer(type, c, *dev, how)) found.push_back(c.name + ": " + std::move(f));
      } catch (const std::exception& e) {
        found.push_back(c.name + ": exception: " + e.what());
      }
    }
  }
  return py::cast(found);
}

}  // namespace

layer_type type_of_class(const py::object& cls) {
  layer_class of;
  of.type = held(cls);
  of.name = cls.attr("type_name")().cast<std::string>();
  of.loss = cls.attr("loss").cast<bool>();
  of.metric = cls.attr("metric").cast<bool>();
  of.inputs = cls.attr("inputs").cast<int>();
  of.outputs = cls.attr("outputs").cast<int>();
  for (const auto& d : cls.attr("differentiable")) of.differentiable.push_back(d.cast<bool>());
  layer_type t;
  t.name = of.name;
  t.doc = cls.attr("__doc__").is_none() ? of.name : py::str(cls.attr("__doc__")).cast<std::string>();
  t.min_inputs = t.max_inputs = of.inputs;
  for (const auto& [name, fallback] : py::dict(cls.attr("option_defaults")()))
    t.specs.push_back(spec_of(py::str(name), fallback, "option of the class"));
  t.make = [of](const options& o) -> std::unique_ptr<layer> {
    const py::gil_scoped_acquire guard;
    py::dict values;
    for (const auto& [name, value] : o.values) values[py::str(name)] = value_of(value);
    try {
      return std::make_unique<python_layer>(of, (*of.type)(**values));
    } catch (const py::error_already_set& e) {
      throw option_error({}, of.name + ": " + text_of_error(e));
    }
  };
  std::size_t number = 0;
  for (const auto& c : cls.attr("cases")) t.cases.push_back(case_of(t, c, ++number));
  return t;
}

void bind_layer(py::module_& m) { m.def("check_layer", &check, py::arg("cls"), py::arg("samples")); }

}  // namespace troupe::python
