// Writes the ONNX nodes of one layer: the values and shapes that it reads, its options and
// parameters, and the graph that the nodes are added to.
// Invariants: names of values and nodes are unique in the graph. The node that computes what the
// layer is named for has the layer's name; the others are NAME/OP_n.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/job/job.hpp"
#include "runtime/node/models/onnx/onnx_model.hpp"
#include "runtime/record/safetensors.hpp"

namespace troupe::onnx {

// What the layers of one export share.
struct export_state {
  struct graph graph;
  const model_graph* model = nullptr;
  std::map<std::string, const tensor*> weights;  // by Troupe's names
  std::map<std::string, std::string> names;      // the other program's, by Troupe's
  std::map<std::string, std::string> shared;     // a layer's name of a parameter that another layer has: that one's
  std::map<std::string, std::string> written;    // by Troupe's names and extents: initializers of parameters
  std::set<std::string> taken;                   // names of values
  std::vector<std::vector<std::string>> values;  // of layers, by index and output
  std::int64_t opset = 13;
};

// The part of a node in its layer.
enum class part : std::uint8_t { inner, main, last, whole };  // whole: main and last

using attributes = std::vector<attribute>;
attribute attribute_of(const std::string& name, std::int64_t v);
attribute attribute_of(const std::string& name, double v);
attribute attribute_of(const std::string& name, const std::string& v);
attribute list_of(const std::string& name, std::vector<std::int64_t> v);
attribute words_of(const std::string& name, std::vector<std::string> v);

class layer_writer {
 public:
  layer_writer(export_state& to, const graph_layer& l) : to_(to), layer_(l) {}

  const graph_layer& layer() const { return layer_; }
  const options& given() const { return layer_.spec->values; }
  const shape& in(std::size_t k = 0) const { return layer_.in[k]; }
  const shape& out(std::size_t k = 0) const { return layer_.out[k]; }
  std::string input(std::size_t k = 0) const;
  std::string output(std::size_t k = 0) const;
  void needs_opset(std::int64_t version) { to_.opset = std::max(to_.opset, version); }

  // The layer's parameter as an initializer, in its own extents or in others of equal count.
  bool has(const std::string& parameter) const;
  std::string weight(const std::string& parameter, std::vector<std::int64_t> dims = {});
  std::vector<float> weight_values(const std::string& parameter) const;
  // Further initializers, named NAME.WHAT.
  std::string reals(const std::string& what, std::vector<std::int64_t> dims, std::vector<float> values);
  std::string integers(const std::string& what, std::vector<std::int64_t> values);
  std::string scalar(const std::string& what, double value) { return reals(what, {}, {static_cast<float>(value)}); }

  // Adds a node and returns the name of its first output: output(0) for `last` and `whole`.
  std::string add(part p, const std::string& op, std::vector<std::string> inputs, attributes with = {});
  void add_all(const std::string& op, std::vector<std::string> inputs, attributes with = {});  // a node with all outputs
  void add_copy(std::size_t output_index);                                                     // an Identity of input 0

 private:
  std::string real_name(const std::string& parameter) const;
  std::string fresh(std::string name);
  void add_initializer(tensor_value t);

  export_state& to_;
  const graph_layer& layer_;
  int nodes_ = 0;
};

// Writes the nodes of a layer. The error says what ONNX cannot express.
using layer_export = expected<void> (*)(layer_writer&);
// Null: the layer type has no equivalent.
layer_export find_layer_export(const std::string& type);

// The entries of each file.
using layer_exports = std::vector<std::pair<std::string, layer_export>>;
layer_exports window_exports();   // convolution, pooling
layer_exports element_exports();  // activations, sums, parameters by channel
layer_exports norm_exports();
layer_exports shape_exports();
layer_exports dense_exports();  // linear, embedding, recurrent

}  // namespace troupe::onnx
