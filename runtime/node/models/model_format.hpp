// Models of other programs: each format reads a model as a job file and weights, or writes a job
// and its weights in the other program's form. `troupe import` and `troupe export` use this table.
// Errors: diagnostics. They name the file, the layer or node, and what Troupe or the format lacks.
// Readers take files from anywhere: they check every length, and execute nothing.
// Threads: pure functions; any thread.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/job/job.hpp"
#include "runtime/record/safetensors.hpp"

namespace troupe {

// Names of tensors: {the other program's, Troupe's}. Both sides are unique.
using name_pairs = std::vector<std::pair<std::string, std::string>>;

struct import_request {
  std::vector<std::string> files;  // of one model, in any order; at least one
  name_pairs names;
};

struct imported_model {
  std::string job;                 // text of a job file; empty: the files have weights only
  named_tensors weights;           // by Troupe's names, in the order of the job's layers; empty: the files have none
  std::vector<std::string> notes;  // what was left out or assumed, one sentence each
};

struct exported_file {
  std::string extension;  // ".prototxt"; one of the format's
  std::string bytes;
};

struct exported_model {
  std::vector<exported_file> files;
  std::vector<std::string> notes;
};

struct model_format {
  std::string name;                     // "onnx"
  std::string about;                    // one line
  std::vector<std::string> extensions;  // of its files: ".onnx"
  // Null: the format is not read, or not written.
  std::function<expected<imported_model, diagnostics>(const import_request&)> read;
  // `weights`: every parameter of the job's graph, by name.
  std::function<expected<exported_model, diagnostics>(const prepared_job&, const named_tensors& weights, const name_pairs&)> write;
};

const std::vector<model_format>& model_formats();

// The format of files with this extension; null: none has it.
const model_format* format_of_extension(const std::string& extension);

// A single mistake, without a line.
diagnostics model_error(const std::string& file, const std::string& what);

// Reads a list of names: a line has the other program's name, spaces, and Troupe's. Empty lines and
// lines that begin with # are skipped.
expected<name_pairs, diagnostics> parse_names(const std::string& text, const std::string& file);

}  // namespace troupe
