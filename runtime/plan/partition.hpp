// How layers lie over nodes. A layer is one or more parts; each part is on one node and computes,
// of every packet in its range of packets, all output features or a range of them, or its addend of
// all of them, from a range of the input's features. What the job file says (`partition`,
// `fraction`, `place`) is obeyed; what it leaves open follows the layer's input, so that neighbours
// that can share an assignment exchange nothing.
//
// In the terms of distributions (ops/layer.hpp, docs/partitioning.md): parts that differ in packets
// are split(0), parts that differ in features are split(1), one part for all is `none`. Parts that
// differ in features of the input make addends: their outputs are partial, and whoever reads the
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
packet_range intersection(packet_range a, packet_range b);  // count 0: none

// Along axis 1 of an activation. {0, 0}: all of it.
struct feature_range {
  std::int64_t begin = 0, end = 0;
  bool whole() const { return end == 0; }
  std::int64_t count() const { return end - begin; }
  friend bool operator==(const feature_range&, const feature_range&) = default;
};
constexpr std::int32_t no_worker = -1;

struct layer_part {
  std::uint32_t node = 0;
  packet_range packets;
  feature_range features;           // of the layer's outputs
  feature_range inputs;             // of its input, when the outputs are addends
  std::int32_t worker = no_worker;  // >= 0: the part of that data-parallel worker
};

enum class split_kind : std::uint8_t { batch, feature, none, input };

struct assignment {
  split_kind kind = split_kind::batch;
  std::vector<layer_part> parts;  // in the order of packets, or of features
  std::vector<double> shares;     // of the parts
  bool placed = false;            // not beside every worker
  bool addends() const { return kind == split_kind::input && parts.size() > 1; }
};

// Elements of a parameter: `count` from `begin` on; cut along axis 1 they are runs of `run` that
// begin `stride` apart.
struct element_range {
  std::int64_t begin = 0, count = 0;
  std::int64_t run = 0, stride = 0;  // 0: without a gap
};

// What a part of a layer is as a layer: shapes, maths and parameters cut.
struct part_layer {
  graph_layer as;
  feature_range features;            // of output 0
  feature_range inputs;              // of input 0, when output 0 is an addend
  std::vector<feature_range> needs;  // by input
  // By parameter of `as` (an addend that is not the first lacks those that are added once): which
  // elements, as which shape.
  std::vector<element_range> elements;
  shapes params;
};

// `total` units dealt by fraction: every part but the first gets its share rounded down, the first
// what is left (Caffe con Troll: 256 examples, 0.6 and sixteen parts of 0.4 / 16 make 160 + 16 x
// 6).
std::vector<std::int64_t> share_out(std::int64_t total, const std::vector<double>& fraction);

// The features that this part of `l` reads of its input: {0, 0} when all of them.
feature_range needed(const graph_layer& l, std::size_t input, const layer_part& part);

// The features of a tensor that a part of its producer makes, which has `features` of the
// producer's output 0.
feature_range made(const model_graph& g, tensor_ref what, feature_range features);

// The features that both ranges have; false when there are none. {0, 0}, which stands for all
// features, only when both are that.
std::pair<feature_range, bool> common(feature_range a, feature_range b);

// Null when the part is the whole layer. `part.features` must be one that assign_layers made.
std::shared_ptr<const part_layer> make_part(const model_graph& g, const graph_layer& l, const layer_part& part);

// A shape with `r` in place of its axis 1.
shape cut(const shape& s, const feature_range& r);
// What a part (null: the whole layer) has of parameter `p`, an index of the graph; count 0:
// nothing.
element_range elements_of(const model_graph& g, std::uint32_t p, const part_layer* part);

// One assignment a layer. `workers`: the nodes of the data-parallel workers; `ranges` their
// packets. Errors go to `errors`, with position: unknown nodes, fractions that do not sum to 1 or
// leave a part nothing, layers that cannot be cut that way (and what they support).
std::vector<assignment> assign_layers(const job_spec& job, const model_graph& g, const std::vector<node_spec>& nodes,
                                      const std::vector<std::uint32_t>& workers, const std::vector<packet_range>& ranges,
                                      diagnostics& errors);

// Packets of each worker: by the fraction of the first layer that is split by batch beside the
// workers and says one, else evenly.
std::vector<packet_range> worker_ranges(const job_spec& job, std::uint32_t workers, std::uint32_t packets, diagnostics& errors);

}  // namespace troupe
