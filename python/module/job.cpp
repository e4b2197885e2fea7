#include "python/module/job.hpp"
#include <dlfcn.h>

#include <map>

#include "ops/option_specs.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/job/record.hpp"
#include "runtime/node/config/job_file.hpp"
#include "runtime/node/config/resolved_job.hpp"
#include "runtime/node/formats/formats.hpp"
#include "runtime/node/machine_memory.hpp"
#include "runtime/node/node_tables.hpp"
#include "runtime/record/checkpoint.hpp"

namespace troupe::python {
namespace {

using array_map = std::map<std::string, std::shared_ptr<const random_bytes>>;

numpy_array array_named(const array_map& all, const options& o, const char* key) {
  const auto& name = o.text(key);
  const auto found = all.find(name);
  if (found == all.end()) {
    std::vector<std::string> names;
    for (const auto& [n, bytes] : all) names.push_back(in_quotes(n));
    throw option_error(key, "there is no array " + in_quotes(name) +
                                (names.empty() ? "; the job was given no arrays" : "; the job was given " + joined(names)));
  }
  auto a = numpy_array_of(name, found->second);
  if (!a) throw option_error(key, a.error().text);
  return *std::move(a);
}

// Lets plugins find Troupe's symbols, which are in this module. Python loads modules without
// making their symbols visible.
void show_symbols_to_plugins() {
  Dl_info here;
  if (dladdr(reinterpret_cast<const void*>(&show_symbols_to_plugins), &here) != 0)
    static_cast<void>(dlopen(here.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD));
}

python_job prepare(const py::dict& given, const py::list& layers, const py::dict& arrays) {
  python_job j;
  j.what = text_of_job(given);
  if (j.what.text.find("plugins") != std::string::npos) show_symbols_to_plugins();
  j.all = tables_with(layers, arrays);
  const py::gil_scoped_release free;
  auto made = prepare_text(j.what, j.all);
  if (!made) throw job_error(made.error());
  j.job = *std::move(made);
  return j;
}

// A job that will train: refuses one that needs more memory than there is.
void prepare_to_train(python_job& j) {
  if (const auto fits = check_memory(*j.job, 0, machine_memory()); !fits) throw job_error(diagnostics{fits.error()});
  j.devices = make_devices(j.job->nodes.front().devices);
}

void begin_with_file(python_job& j, const std::string& file) {
  auto read = read_safetensors(file);
  if (!read) throw job_error(read.error());
  if (const auto begun = begin_from_weights(*j.job, *std::move(read), file); !begun) throw job_error(begun.error());
  j.begun_from = file;
}

void begin_with_arrays(python_job& j, const py::dict& arrays) {
  if (const auto begun = begin_from_weights(*j.job, {{}, named_tensors_of(arrays)}, "weights"); !begun)
    throw job_error(begun.error());
}

void resume(python_job& j, const std::string& path) {
  auto file = path;
  expected<checkpoint, record_error> read = unexpected(record_error{path, {}, "the folder has no readable checkpoint"});
  if (py::module_::import("os.path").attr("isdir")(path).cast<bool>()) {
    auto found = load_newest_checkpoint(path);
    if (found.newest) read = *std::move(found.newest), file = found.file;
  } else {
    read = load_checkpoint(path);
  }
  if (!read) throw job_error(read.error());
  if (const auto begun = resume_from(*j.job, *std::move(read), file, numerics_of(j.devices), j.what.overrides); !begun)
    throw job_error(begun.error());
  j.begun_from = file, j.from_checkpoint = true;
}

py::list layers_of(const python_job& j) {
  py::list list;
  for (const auto& l : j.job->graph.layers) {
    py::list outputs, parameters;
    for (const auto& s : l.out) outputs.append(tuple_of(s));
    for (const auto p : l.params) parameters.append(j.job->graph.params[p].full_name);
    list.append(py::make_tuple(l.name, l.type, std::move(outputs), std::move(parameters)));
  }
  return list;
}

py::dict parameters_of(const python_job& j) {
  py::dict d;
  for (const auto& p : j.job->graph.params) d[py::str(p.full_name)] = tuple_of(p.spec.dims);
  return d;
}

}  // namespace

job_text text_of_job(const py::dict& given) {
  job_text what;
  what.file = given["file"].cast<std::string>();
  if (given["text"].is_none()) {
    auto text = read_config_text(what.file);
    if (!text) throw job_error(text.error());
    what.text = *std::move(text);
  } else {
    what.text = given["text"].cast<std::string>();
  }
  for (const auto& o : given["overrides"]) what.overrides.push_back(o.cast<std::string>());
  what.load_plugins = given["load_plugins"].cast<bool>();
  return what;
}

std::shared_ptr<const tables> tables_with(const py::list& layer_classes, const py::dict& arrays) {
  auto all = node_tables();
  for (const auto& cls : layer_classes) {
    auto type = type_of_class(py::reinterpret_borrow<py::object>(cls));
    if (all.layers.find(type.name))
      throw job_error("there is already a layer type '" + type.name + "': give the class another name");
    all.layers.add(std::move(type));
  }
  array_map bytes;
  for (const auto& [name, array] : arrays) bytes.emplace(py::str(name).cast<std::string>(), npy_bytes_of(array, py::str(name)));
  all.sources.add(array_source_type(
      "arrays", "Arrays of the program that trains, by name.", {},
      [bytes = std::move(bytes)](const options& o, const char* key, std::uint64_t) { return array_named(bytes, o, key); }));
  return std::make_shared<const tables>(std::move(all));
}

void bind_job(py::module_& m) {
  py::class_<python_job>(m, "PreparedJob")
      .def(py::init(&prepare), py::arg("given"), py::arg("layers"), py::arg("arrays"))
      .def("prepare_to_train", &prepare_to_train)
      .def("begin_with_file", &begin_with_file)
      .def("begin_with_arrays", &begin_with_arrays)
      .def("resume", &resume)
      .def_property_readonly("name", [](const python_job& j) { return j.job->spec.name; })
      .def_property_readonly("layers", &layers_of)
      .def_property_readonly("parameters", &parameters_of)
      .def_property_readonly("toml", [](const python_job& j) { return resolved_job_text(*j.job); })
      .def_property_readonly("classes", [](const python_job& j) { return j.job->data->classes(); })
      .def_property_readonly("targets", [](const python_job& j) { return j.job->data->targets(); })
      .def_property_readonly("channel_order", [](const python_job& j) { return name_of(j.job->data->picture_order()); })
      .def_property_readonly("vocabulary", [](const python_job& j) { return j.job->data->vocabulary(); })
      .def_property_readonly("class_names", [](const python_job& j) { return py::cast(j.job->data->class_names()); })
      .def_property_readonly("example", [](const python_job& j) { return tuple_of(j.job->data->example()); })
      .def_property_readonly(
          "sizes",
          [](const python_job& j) { return py::make_tuple(j.job->data->size(split::train), j.job->data->size(split::test)); })
      .def_property_readonly("last_step", [](const python_job& j) { return j.job->last_step; })
      .def_property_readonly("steps_per_epoch", [](const python_job& j) { return j.job->steps_per_epoch; })
      .def("initial_weights", [](const python_job& j) {
        const auto devices = make_devices(j.job->nodes.front().devices);
        return dict_of(initial_weights(*j.job, *devices.front()));
      });
}

}  // namespace troupe::python
