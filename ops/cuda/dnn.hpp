// Convolutions by cuDNN's graph API. A plan is an engine of cuDNN with its settings for one pass of
// one geometry. cuDNN makes plans from the properties of a device, so plans for a GPU can also be
// made on a machine without one.
// Source: the backend API of cuDNN 9.8 and later (cudnn_graph.h).
// Errors: dnn_error.
#pragma once

#include <cudnn.h>

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "ops/dtype.hpp"
#include "ops/geometry.hpp"

namespace troupe::cuda {

struct dnn_error : std::runtime_error {
  dnn_error(cudnnStatus_t s, const std::string& text) : std::runtime_error(text), code(s) {}
  cudnnStatus_t code;
};

// A descriptor of the backend API. Copies share it.
class dnn_descriptor {
 public:
  explicit dnn_descriptor(cudnnBackendDescriptorType_t type);
  cudnnBackendDescriptor_t get() const { return made_.get(); }
  dnn_descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::size_t count, const void* values);
  dnn_descriptor& set(cudnnBackendAttributeName_t name, const std::vector<std::int64_t>& values);
  dnn_descriptor& set(cudnnBackendAttributeName_t name, const dnn_descriptor& value);
  dnn_descriptor& finish();

 private:
  std::shared_ptr<void> made_;
};

// Properties of a device for the planner: of a GPU of this machine, or from JSON, in the form that
// cuDNN gives for CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION.
dnn_descriptor properties_of_device(int index);
dnn_descriptor properties_of_text(const std::string& json);

// Engines that convert their inputs to a type of smaller range, or add in less than f32, are never
// used.
struct conv_rules {
  bool deterministic = true;                       // only engines that give the same bits again
  bool tensor_cores = false;                       // true: f32 factors may be rounded to TF32; bf16 needs them
  std::size_t workspace = std::size_t{256} << 20;  // bytes at most
  friend auto operator<=>(const conv_rules&, const conv_rules&) = default;
};
// Of the two tensors that a pass multiplies, and of the one that it computes. Sums are f64 for f64
// factors, f32 for f32 and bf16.
struct conv_types {
  conv_types(dtype all) : factors(all), result(all) {}
  conv_types(dtype f, dtype r) : factors(f), result(r) {}
  dtype factors, result;
  friend auto operator<=>(const conv_types&, const conv_types&) = default;
};
struct conv_plan {
  dnn_descriptor plan, engine;
  std::size_t workspace = 0;  // bytes
  bool tensor_cores = false;
  int considered = 0;  // engines with their settings, up to the chosen one
};

// The first engine of cuDNN's heuristics that the rules allow; nothing if there is none.
std::optional<conv_plan> plan_conv(const dnn_descriptor& properties, const conv_geometry& g, conv_pass pass,
                                   const conv_types& types, const conv_rules& rules = {});

// The plans of one GPU, made when they are first needed.
// Threads: any. A plan stays valid as long as this object.
class conv_plans {
 public:
  explicit conv_plans(int device) : device_(device) {}
  // Null if cuDNN has no engine that the rules allow.
  const conv_plan* find(const conv_geometry& g, conv_pass pass, const conv_types& types, const conv_rules& rules);

 private:
  using key = std::tuple<std::array<std::int64_t, 14>, conv_pass, conv_types, conv_rules>;
  const int device_;
  std::mutex lock_;
  std::optional<dnn_descriptor> properties_;
  std::map<key, std::optional<conv_plan>> plans_;
};

// A cuDNN handle of one stream.
class dnn {
 public:
  explicit dnn(cudaStream_t s);
  // Enqueues a pass. Its result replaces y (forward), x (data) or w (weights). Addresses are
  // multiples of `alignment` bytes.
  void run(const conv_plan& p, const void* x, const void* w, const void* y, void* workspace);
  static constexpr std::size_t alignment = 16;

 private:
  std::unique_ptr<cudnnContext, cudnnStatus_t (*)(cudnnHandle_t)> handle_{nullptr, cudnnDestroy};
};

}  // namespace troupe::cuda
