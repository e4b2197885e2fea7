// hdf5: datasets of HDF5 files, in the layout of Caffe's HDF5Data layer (hdf5_dataset.hpp). They
// are read when the job starts and kept in memory; the rest is as for numpy (numpy_source.cpp).
#include <algorithm>
#include <iterator>

#include "ops/option_specs.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/data/source_options.hpp"
#include "runtime/node/formats/formats.hpp"
#include "runtime/node/formats/hdf5_dataset.hpp"

namespace troupe {
namespace {

bool is_label_key(std::string_view key) { return key == "labels" || key == "test_labels"; }

// `key`: of the options of numpy, whose test arrays are here those of test_path.
numpy_array dataset_of(const options& o, const char* key, std::uint64_t most) {
  const bool test = std::string_view(key).starts_with("test_");
  const char* path_key = test ? "test_path" : "path";
  const char* name_key = is_label_key(key) ? "labels" : "data";
  const auto &path = o.text(path_key), &name = o.text(name_key);
  check_path_text(path_key, path);
  if (name.empty() || name.find('\0') != std::string::npos)
    throw option_error(name_key, std::string("option '") + name_key + "' is the name of a dataset, not " + in_quotes(name));
  const auto files = hdf5_files(path);
  if (!files) throw option_error(path_key, files.error().text);
  auto a = open_hdf5(*files, name, most);
  if (!a) throw option_error(path_key, a.error().text);
  a->memory = a->bytes->size();
  // Caffe's files have class numbers as [n, 1, ...].
  auto& extents = a->header.extents;
  if (is_label_key(key) && o.text("label_kind") != "values")
    while (extents.size() > 1 && extents.back() == 1) extents.pop_back();
  return *std::move(a);
}

std::shared_ptr<const source> open_hdf5_source(const options& o, std::uint64_t) {
  auto given = o;
  const bool tested = !o.text("test_path").empty();
  if (tested && o.real("test_fraction") > 0) throw option_error("test_fraction", "test_fraction and test_path exclude each other");
  given.values["test_data"] = tested ? o.text("data") : std::string();
  given.values["test_labels"] = o.text("labels");
  return open_arrays(given, dataset_of);
}

option_specs hdf5_specs() {
  using kind = option_kind;
  option_specs specs{option_of("path", kind::text, std::nullopt,
                               "HDF5 file of the training examples, or a text file with the path of such a file in each line"),
                     option_of("test_path", kind::text, std::string{}, "that of the test examples"),
                     option_of("data", kind::text, std::string("data"), "dataset of the examples, [n, example...]"),
                     option_of("labels", kind::text, std::string("label"),
                               "dataset of their class numbers or target values, [n, ...]; empty: no labels")};
  for (auto& s : array_options())
    if (s.name.find("data") == std::string::npos && !is_label_key(s.name)) specs.push_back(std::move(s));
  specs.push_back(bounded(option_of("memory_mib", kind::integer, std::int64_t{4096},
                                    "maximum memory for the datasets, the labels and the list of examples"),
                          1, 1e6));
  return specs;
}

std::vector<source_file> hdf5_paths(const options& o) { return {{"path", o.text("path")}, {"test_path", o.text("test_path")}}; }

std::vector<source_file> files_of_lists(const options& o) {
  std::vector<source_file> list;
  for (const auto& [key, path, folder] : hdf5_paths(o)) {
    if (path.empty()) continue;
    if (const auto files = hdf5_files(path))
      for (const auto& f : *files)
        if (f != path) list.push_back({key, f});
  }
  return list;
}

}  // namespace

source_type hdf5_source_type() {
  return {"hdf5",       "Datasets of HDF5 files, as of Caffe's HDF5Data layer. Kept in memory. Needs the package libhdf5-103-1.",
          hdf5_specs(), open_hdf5_source,
          hdf5_paths,   files_of_lists};
}

}  // namespace troupe
