// How each layer type of Troupe becomes a layer of Caffe.
// Threads: pure functions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/model/graph.hpp"
#include "runtime/node/models/caffe/fields.hpp"
#include "runtime/node/models/caffe/wire.hpp"
#include "runtime/record/safetensors.hpp"

namespace troupe::caffe {

// Fields of a message under construction.
proto_field text_field(const std::string& name, const std::string& value);
proto_field word_field(const std::string& name, const std::string& value);
proto_field integer_field(const std::string& name, std::int64_t value);
proto_field real_field(const std::string& name, double value);
proto_field message_field(const std::string& name, std::vector<proto_field> fields);

// A layer on its way. A rule sets `type`, `own` and `params`.
struct layer_export {
  const graph_layer& layer;
  const options& values;  // of the layer, with its defaults
  const model_graph& graph;
  findings& found;
  std::string type;                  // Caffe's
  std::vector<proto_field> own;      // the fields of its type: convolution_param { ... }
  std::size_t params = 0;            // how many of the layer's parameters are its blobs, from the first
  const graph_layer* pad = nullptr;  // a layer pad before it, which is part of it
  std::int64_t ignored = -1;         // the label that does not count in losses and metrics

  void refuse(const std::string& why);
  const graph_param& param(std::size_t k) const { return graph.params[layer.params[k]]; }
  void add_filler(std::vector<proto_field>& to, const std::string& field, std::size_t k) const;
};

using export_rule = void (*)(layer_export&);

// Null: Caffe has no such layer.
export_rule export_rule_of(const std::string& type);

// The layer pad whose output `l`, a convolution, alone reads, with zeros and equal on opposite
// sides; else null.
const graph_layer* pad_of(const model_graph& g, const graph_layer& l);

}  // namespace troupe::caffe
