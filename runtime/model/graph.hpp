// The model as a validated graph: layers in topological order, every edge with its shape, every
// parameter with its place in the flat list. Built once per job and node from the same job_spec, so
// that nobody has to send it.
// Errors: build_graph collects every mistake it can find, each with its position.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "ops/layer.hpp"
#include "ops/registry.hpp"
#include "runtime/base/diagnostic.hpp"
#include "runtime/spec/codec_spec.hpp"
#include "runtime/spec/job_spec.hpp"

namespace troupe {

// Where a tensor comes from: layer `layer`'s output `output`, or (layer == from_data) the loader's
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
  codec_spec codec;         // of its gradients, on their way to the shards
};

struct graph_layer {
  std::uint32_t index = 0;  // stable: position in the topological order, used for seeds
  std::string name;
  std::string type;
  std::shared_ptr<const layer> maths;
  std::vector<tensor_ref> inputs;
  shapes in, out;                     // of one training packet
  std::vector<std::uint32_t> params;  // indices into model_graph::params
  std::vector<bool> grad_in_wanted;   // per input: does a gradient have to flow back there?
  bool wants_backward = false;        // has parameters, or something before it has; and a loss depends on it
  bool in_train = true, in_test = true;
  bool gather = false;               // the packets of a step are computed as one
  bool recompute = false;            // outputs and what it saves are not kept for backward, which runs forward again
  carry_specs carries;               // with algorithm "bptt": what it carries from step to step
  double loss_weight = 0.0;          // of a loss layer
  const layer_spec* spec = nullptr;  // in the job_spec the graph was built from, which must outlive it
};

struct model_graph {
  std::vector<graph_layer> layers;  // topological order, ties by position in the file
  std::vector<graph_param> params;
  shape data, label;   // of one training packet
  bool ids = false;    // data is i32, not of the activations' type
  bool local = false;  // algorithm "cd": a layer that is a loss and has parameters (rbm) sends no gradient to its inputs
  std::int64_t packet_examples = 0;
  std::int64_t parameter_count = 0;
  std::int64_t classes = 0;
  // What labels, and ids in data, are looked up by some layer and so must stay below; 0: nobody
  // looks anything up (edge_types.hpp).
  std::int64_t label_below = 0, id_below = 0;
  // Consumers of one tensor, in layer order: the fixed order in which their gradients are added.
  std::vector<tensor_ref> consumers(tensor_ref t) const;  // {layer, input port} pairs
  dtype type_of(tensor_ref t, dtype activations) const;
  double flops_per_packet() const;  // forward, in training
  bool carries() const;
};

// `example` is the shape of one example (from the source), e.g. 1x28x28, `label` that of its label,
// `ids` whether examples hold ids (i32) in place of values. Returns diagnostics when something is
// wrong: unknown layer type or input, missing or unused input, cycle, wrong number of inputs,
// shapes that do not fit (names the layer and both shapes), batch not divisible by packets,
// duplicate names, no loss layer, a layer that is given values for ids, ids for values, or ids that
// it has no place for, ...
std::variant<model_graph, diagnostics> build_graph(const job_spec& job, const layer_registry& layers, const shape& example,
                                                   std::int64_t classes, const shape& label = {}, bool ids = false);

}  // namespace troupe
