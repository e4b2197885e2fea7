// How layers are distributed over nodes. A layer has one or more parts. Each part is on one node
// and computes, for every packet in its range of packets, one of: all output features, a range of
// them, or an addend of all of them from a range of the input's features. Keys of the job file
// (`partition`, `fraction`, `place`) take precedence; a layer without them follows its input, so
// that neighbours with the same assignment exchange nothing.
//
// In terms of distributions (ops/layer.hpp, docs/partitioning.md): parts that differ in packets
// are split(0), parts that differ in features are split(1), a single part is `none`. Parts that
// differ in input features compute addends: their outputs are partial, and each reader of the
// tensor adds them in the order of the parts. Where the parts of a producer and of a consumer
// differ, the plan's edges are the intersections of their packets and features; gradients take the
// same edges back. The gradient of a tensor that every part of a consumer reads whole (broadcast)
// is a sum over these parts (partial).
//
// Sources: SINGA's partition dimensions (Ooi et al. 2015), Krizhevsky 2014 (one weird trick), Caffe
// con Troll's fractions (Hadjis et al. 2015), multi-node Caffe (BVLC/caffe#3441).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/model/graph.hpp"

namespace troupe {

struct packet_range {
  std::uint32_t first = 0, count = 0;
  bool has(std::uint32_t p) const { return p >= first && p - first < count; }
  friend bool operator==(const packet_range&, const packet_range&) = default;
};
packet_range intersection(packet_range a, packet_range b);  // count 0: empty

// A range along axis 1 of an activation. {0, 0}: all features.
struct feature_range {
  std::int64_t begin = 0, end = 0;
  bool whole() const { return end == 0; }
  std::int64_t count() const { return end - begin; }
  friend bool operator==(const feature_range&, const feature_range&) = default;
};
constexpr std::int32_t no_worker = -1;
constexpr std::int32_t any_device = -1;

struct layer_part {
  std::uint32_t node = 0;
  packet_range packets;
  feature_range features;            // of the layer's outputs
  feature_range inputs;              // of the layer's input, if the outputs are addends
  std::int32_t worker = no_worker;   // >= 0: the part belongs to that data-parallel worker
  std::int32_t device = any_device;  // index in node_spec::devices, if the file names a device
};

enum class split_kind : std::uint8_t { batch, feature, none, input };

struct assignment {
  split_kind kind = split_kind::batch;
  std::vector<layer_part> parts;  // in the order of packets or of features
  std::vector<double> shares;     // by part
  bool placed = false;            // on its own nodes instead of on the node of every worker
  bool addends() const { return kind == split_kind::input && parts.size() > 1; }
};

// Elements of a parameter: `count` elements from `begin` on. A parameter cut along axis 1 has runs
// of `run` elements whose starts are `stride` apart.
struct element_range {
  std::int64_t begin = 0, count = 0;
  std::int64_t run = 0, stride = 0;  // 0: contiguous
};

// A part of a layer in the form of a layer: shapes, maths and parameters are those of the part.
struct part_layer {
  graph_layer as;
  feature_range features;            // of output 0
  feature_range inputs;              // of input 0, if output 0 is an addend
  std::vector<feature_range> needs;  // by input
  // By parameter of `as`: its elements and its shape. Parameters that are added once (a bias)
  // belong to the first addend only.
  std::vector<element_range> elements;
  shapes params;
};

// Splits `total` units by fraction: every part except the first gets its share rounded down, the
// first gets the rest (Caffe con Troll: 256 examples, 0.6 and sixteen parts of 0.4 / 16 give 160 +
// 16 x 6).
std::vector<std::int64_t> share_out(std::int64_t total, const std::vector<double>& fraction);

// Units for parts whose units cost `cost` each: at least one for each part, and otherwise so that
// the most expensive part is as cheap as possible. Needs as many units as parts.
std::vector<std::int64_t> balanced(std::int64_t total, const std::vector<double>& cost);

// The features that this part of `l` reads of its input; {0, 0}: all of them.
feature_range needed(const graph_layer& l, std::size_t input, const layer_part& part);

// The features of tensor `what` that a part of its producer computes, if the part has `features` of
// the producer's output 0.
feature_range made(const model_graph& g, tensor_ref what, feature_range features);

// The intersection of both ranges; false if it is empty. The result is {0, 0} (all features) only
// if both ranges are.
std::pair<feature_range, bool> common(feature_range a, feature_range b);

// Null if the part is the whole layer. `part.features` must come from assign_layers.
std::shared_ptr<const part_layer> make_part(const model_graph& g, const graph_layer& l, const layer_part& part);

// A shape with axis 1 reduced to `r`.
shape cut(const shape& s, const feature_range& r);
// The elements of parameter `p` (an index of the graph) that a part (null: the whole layer) has;
// count 0: none.
element_range elements_of(const model_graph& g, std::uint32_t p, const part_layer* part);

// One assignment per layer. `workers`: nodes of the data-parallel workers; `ranges`: their packets.
// Mistakes are appended to `errors` with their position: unknown nodes, fractions that do not sum
// to 1 or leave a part empty, layers that cannot be split in that way (and the ways they support).
std::vector<assignment> assign_layers(const job_spec& job, const model_graph& g, const std::vector<node_spec>& nodes,
                                      const std::vector<std::uint32_t>& workers, const std::vector<packet_range>& ranges,
                                      diagnostics& errors);

// Packets of each worker: by the fraction of the first layer that is split by batch over the
// workers and has a fraction, else evenly. `speeds`: of each worker, in any unit, for "auto".
std::vector<packet_range> worker_ranges(const job_spec& job, const std::vector<double>& speeds, std::uint32_t packets,
                                        diagnostics& errors);

}  // namespace troupe
