// The job that an import makes: its layers and tables, and their text as a job file.
// Threads: values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/record/safetensors.hpp"

namespace troupe::caffe {

// Keys of a table with their values as TOML, in the order of the file.
using toml_keys = std::vector<std::pair<std::string, std::string>>;

struct job_layer {
  enum class role { plain, loss, metric };
  std::string name, type, phase;
  std::vector<std::string> inputs;  // "conv1", "slice1.1", "data", "label"
  toml_keys keys;
  named_tensors weights;  // by the names of the layer's parameters
  role part = role::plain;
  std::string owner, shared;            // Caffe's name of the layer whose parameters it shares; if only one, that one's name
  std::string theirs;                   // Caffe's name of it; empty: Caffe has no such layer
  std::int64_t features = 0;            // number of outputs or channels, if the layer sets it
  bool image = false;                   // its output has the axes of an image, as far as is known
  bool mergeable = false;               // a Scale that may become the affine part of a batch_norm
  std::size_t params = 0;               // number of parameters
  std::optional<std::int64_t> ignored;  // of a loss or metric: the label >= 0 that does not count in it
  void set(const std::string& key, std::string value) { keys.emplace_back(key, std::move(value)); }
};

struct job_model {
  std::string name;
  toml_keys job, data, augment, dynamics, train, finish, eval, checkpoint, pipeline;
  std::vector<std::string> heading;  // comments at the head of the file
  std::vector<job_layer> layers;
};

std::string job_text(const job_model& m);

// Inputs name a layer by itself or by one of its outputs: "slice1" of "slice1.1".
std::string layer_of(const std::string& input);

}  // namespace troupe::caffe
