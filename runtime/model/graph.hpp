// The model as a validated graph: layers in topological order, every edge with its shape, every
// parameter with its offset in the flat list. Every node builds it from the same job_spec, so it is
// never sent.
// Errors: build_graph collects every mistake it can find, each with its position.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/layer.hpp"
#include "ops/registry.hpp"
#include "runtime/base/diagnostic.hpp"
#include "runtime/base/result.hpp"
#include "runtime/spec/codec_spec.hpp"
#include "runtime/spec/job_spec.hpp"

namespace troupe {

// The producer of a tensor: layer `layer`'s output `output`, or (layer == from_data) the loader's
// output 0 = data, 1 = label.
constexpr std::int32_t from_data = -1;
struct tensor_ref {
  std::int32_t layer = from_data;
  std::uint16_t output = 0;
  friend bool operator==(const tensor_ref&, const tensor_ref&) = default;
};

struct graph_param {
  std::uint32_t layer = 0;
  std::uint32_t index_in_layer = 0;
  param_spec spec;          // multipliers already include the layer's lr_scale and decay_scale
  std::string full_name;    // "conv1.weight"
  std::int64_t offset = 0;  // in the flat list of all parameters, elements
  codec_spec codec;         // of its gradients between workers and shards
  bool frozen = false;      // keeps its value (freeze.hpp)
};

// Returns true if a parameter has an average (ops/rules/average.hpp): running statistics and frozen
// parameters have none.
inline bool has_average(const graph_param& p) { return p.spec.trainable && !p.frozen; }

// size: mirrors a [[layer]] of a job file, checked
struct graph_layer {
  std::uint32_t index = 0;  // stable: position in the topological order, used for seeds
  std::string name;
  std::string type;
  std::shared_ptr<const layer> maths;
  std::vector<tensor_ref> inputs;
  shapes in, out;                     // of one training packet
  std::vector<std::uint32_t> params;  // indices into model_graph::params
  std::vector<bool> grad_in_wanted;   // per input: a gradient must flow back to its producer
  bool wants_backward = false;        // it or a layer before it has parameters, and a loss depends on it
  bool in_train = true, in_test = true;
  // Shared parameters (share.hpp): its last inputs are parameters of other layers, its last outputs
  // are its own parameters that other layers use.
  std::uint16_t shared_in = 0, shared_out = 0;
  bool gather = false;               // the packets of a step are computed as one
  bool recompute = false;            // outputs and saved tensors are not kept for backward, which runs forward again
  carry_specs carries;               // state carried from step to step; with algorithm "bptt" only
  double loss_weight = 0.0;          // of a loss layer
  const layer_spec* spec = nullptr;  // points into the job_spec, which must outlive the graph
};

struct model_graph {
  std::vector<graph_layer> layers;  // topological order, ties by position in the file
  std::vector<graph_param> params;
  shape data, label;     // of one training packet
  bool ids = false;      // data has type i32 instead of the activations' type
  bool targets = false;  // labels are values of the activations' type instead of i32
  bool local = false;    // algorithm "cd": a loss layer with parameters (rbm) sends no gradient to its inputs
  std::int64_t packet_examples = 0;
  std::int64_t parameter_count = 0;
  std::int64_t classes = 0, vocabulary = 0;  // of the labels; of ids in data
  // Exclusive upper bounds of labels, and of ids in data, that a layer uses as an index; 0: no
  // layer does (graph.cpp).
  std::int64_t label_below = 0, id_below = 0;
  // Consumers of one tensor, in layer order: the fixed order in which their gradients are added.
  std::vector<tensor_ref> consumers(tensor_ref t) const;  // {layer, input port} pairs
  dtype type_of(tensor_ref t, dtype activations) const;
  dtype data_type(dtype activations) const { return ids ? dtype::i32 : activations; }
  dtype label_type(dtype activations) const { return targets ? activations : dtype::i32; }
  bool has_labels() const { return classes > 0 || targets; }
  double flops_per_packet() const;  // forward, in training
  bool carries() const;
};

// What a graph needs to know about the source; members as in runtime/data/source.hpp.
struct example_facts {
  shape example;  // as the net receives it (augmented)
  std::int64_t classes = 0;
  shape label = {};
  bool ids = false;
  std::int64_t vocabulary = 0;
  bool targets = false;
};
// Returns diagnostics for: unknown layer types or inputs, missing or unused inputs, cycles, a wrong
// number of inputs, shapes that do not match (naming the layer and both shapes), a batch that
// packets do not divide, duplicate names, a missing loss layer, values where ids are expected and
// vice versa, ids beyond a layer's table, ...
expected<model_graph, diagnostics> build_graph(const job_spec& job, const layer_registry& layers, const example_facts& data);

}  // namespace troupe
