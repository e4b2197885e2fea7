// A job in the making from an ONNX graph: the values computed so far, and the layers that compute
// them.
// Errors: handlers throw `refusal`; import_graph catches it and adds the node.
#pragma once

#include <cstddef>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "ops/registry.hpp"
#include "ops/tensor.hpp"
#include "runtime/node/models/onnx/onnx_model.hpp"
#include "runtime/record/safetensors.hpp"

namespace troupe::onnx {

struct refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

using extents = std::vector<std::int64_t>;
// Stands for the batch in shapes that the graph computes. No net has an extent like it. Texts say
// N.
inline constexpr std::int64_t unknown_batch = 1'000'003;
std::string text_of(const extents& dims);  // "Nx3x4"
// The text of an error with N in place of the number of the batch.
std::string with_batch_named(std::string text);
std::int64_t product(const extents& dims, std::size_t from = 0);

// The decimal number that a float stands for: 0.1, not 0.10000000149. Throws refusal if it is not
// finite.
double decimal_of(float v);

// A value that depends on the data: a tensor of Troupe, and how ONNX's differs from it. Torch and
// the export of recurrent layers transpose to [T, N, D] and back, which needs no layer.
struct activation {
  std::string tensor;     // as in `inputs` of a job file: "conv1", "slice1.1", "data"
  extents dims;           // Troupe's, the batch first
  std::size_t merged;     // Troupe's axes from this one on are one axis of ONNX's; the rank: none are
  std::vector<int> axes;  // for each axis of ONNX's value: the axis of Troupe's, merged; -1: an extent of 1 that Troupe's lacks
  bool ids = false;
  bool causal = false;  // the columns behind the diagonal are masked in ONNX's value, for a softmax
  // If it is not empty, the batch is one axis with others, as [T, N heads, values] has it: axis k
  // of ONNX's value is the next joined[k] of `axes` as one (none: an extent of 1), and none are
  // merged. A batch of 1 may then be absent from `axes`: it is an axis of extent 1 anywhere.
  std::vector<std::size_t> joined = {};

  std::size_t rank() const { return joined.empty() ? axes.size() : joined.size(); }  // of ONNX's value
  extents folded() const;                                                            // Troupe's, merged
  extents shown() const;                                                             // ONNX's
  bool in_order() const;                                                             // no axes are transposed, added or joined
};
activation activation_of(std::string tensor, extents dims);
activation seen_as(activation y, const activation& view);  // y, whose axes are those of the view
// The axes of Troupe's tensor in each axis of ONNX's value.
using axis_groups = std::vector<std::vector<int>>;
axis_groups groups_of(const activation& x);

using constant = std::shared_ptr<const tensor_value>;
using graph_value = std::variant<activation, constant>;
using options_given = std::map<std::string, option_value, std::less<>>;

// Initializers of the graph, by their numbers. More than a few are `many_origins` alone: a constant
// that is made of them is no parameter that layers share.
using origin_set = std::set<std::size_t>;
inline constexpr std::size_t many_origins = std::numeric_limits<std::size_t>::max(), most_origins = 16;

struct draft_layer {
  std::string name, type;
  std::vector<std::string> inputs;
  options_given given;
  named_tensors weights;
  origin_set origins = {};  // initializers that its node reads
  std::string share = {};   // the layer, or its parameter, that it shares
};

// Weights of the layers of an import. Nodes that read one initializer have equal ones: they are
// kept once, so that the memory of an import does not grow with the number of such nodes.
class kept_weights {
 public:
  // A tensor of these values; it shares its memory with an earlier one of the same shape and bits.
  tensor keep(const shape& dims, std::vector<float> values);

 private:
  std::multimap<std::size_t, tensor> by_hash_;
};

struct importing {
  const model* from = nullptr;
  const layer_registry* registry = nullptr;
  std::map<std::string, graph_value> values;
  std::map<std::string, origin_set> origins;                       // of constants: the initializers that they are made of
  std::map<std::string, int> readers;                              // of values of the graph
  std::map<std::string, std::string> not_given;                    // outputs that Troupe does not compute, with their node
  std::map<std::string, activation> flattened;                     // by tensor
  std::map<std::string, activation> sources;                       // what a layer reshape reads, by its name
  std::map<std::pair<std::string, extents>, activation> permuted;  // by tensor and order
  std::vector<draft_layer> layers;
  kept_weights weights;  // of all layers
  std::set<std::string> names;
  std::vector<std::string> notes;
};

// A name of a layer that is valid and not taken.
std::string layer_name(importing& to, const std::string& wanted);

// Adds a layer and returns its outputs. `weights`: values of its parameters, in their order.
std::vector<activation> add_layer(importing& to, const std::string& name, const std::string& type,
                                  const std::vector<activation>& in, options_given given = {},
                                  std::vector<std::vector<float>> weights = {});

// The value as a tensor of Troupe. Axes that are merged, transposed or added become layers flatten,
// reshape and permute. Throws refusal if the batch is not in front.
activation plain_of(importing& to, const activation& x);

// A value whose batch is alone on one axis, as a tensor with the batch in front.
struct batch_in_front {
  activation plain;
  std::size_t place;  // of the batch among ONNX's axes

  std::int64_t axis(std::int64_t a) const;     // of `plain`, for axis a of ONNX's value
  activation back(const activation& y) const;  // y, which has the axes of `plain`, with the batch at its place
};
batch_in_front with_batch_in_front(importing& to, const activation& x);

// A tensor with the batch in front and the other axes in the order of ONNX's value, of which those
// on one side of the batch in one axis of ONNX's are one.
struct settled_view {
  activation plain;
  axis_groups groups;  // of `plain`, for each axis of ONNX's value

  activation view() const { return seen(plain); }
  activation seen(activation y) const;  // y, whose axes are those of `plain`
  // The axis of `plain` that is axis a of ONNX's value. Throws refusal if the batch is joined with
  // it.
  std::int64_t own(std::size_t a) const;
};
settled_view settled(importing& to, const activation& x);

// x with the extents `to`, without a layer. Throws refusal if Troupe cannot express it.
activation reshaped(const activation& x, const extents& to);
// The same, with a layer `name` if it is needed.
activation reshaped_by_layer(importing& to, const std::string& name, const activation& x, const extents& shown);

// x with its axes in this order.
activation with_axes_turned(const activation& x, const extents& order);
// x without these axes of extent 1, in descending order. A layer that it needs is called `name`.
activation dropped(importing& to, const std::string& name, activation x, const extents& axes);

// One node, for its handler.
class node_view {
 public:
  node_view(importing& i, const node& n) : to(i), is(n) {}
  importing& to;
  const node& is;

  std::int64_t opset() const { return to.from->opset; }
  bool has(const std::string& attribute_name) const { return find(attribute_name) != nullptr; }
  std::int64_t integer(const std::string& attribute_name, std::int64_t otherwise) const;
  double real(const std::string& attribute_name, double otherwise) const;
  std::string text(const std::string& attribute_name, const std::string& otherwise) const;
  extents integers(const std::string& attribute_name) const;
  const attribute* find(const std::string& attribute_name) const;

  bool given(std::size_t k) const { return k < is.inputs.size() && !is.inputs[k].empty(); }
  const graph_value& input(std::size_t k) const;
  bool constant_at(std::size_t k) const { return given(k) && std::holds_alternative<constant>(input(k)); }
  const activation& active(std::size_t k) const;  // neither masked nor joined with the batch
  const activation& view(std::size_t k) const;    // not masked
  const activation& scores(std::size_t k) const;
  activation plain(std::size_t k) const { return plain_of(to, active(k)); }
  const tensor_value& reals(std::size_t k, const std::string& what) const;  // a constant of real numbers
  std::vector<float> reals_of(std::size_t k, const std::string& what, std::int64_t count) const;
  extents wholes(std::size_t k, const std::string& what) const;  // a constant of whole numbers
  extents list(const std::string& name, std::size_t k) const;    // an attribute in old operator sets, then an input; may be absent
  std::int64_t axis(std::int64_t given_axis, std::size_t rank) const;  // a negative one counts from the end

  std::string name() const;
  // Adds a layer that is named for the node.
  activation layer(const std::string& type, const std::vector<activation>& in, options_given given = {},
                   std::vector<std::vector<float>> weights = {}) const {
    return add_layer(to, name(), type, in, std::move(given), std::move(weights))[0];
  }
  void result(activation x, std::size_t k = 0) const;
  void result(tensor_value t) const;
  bool read(std::size_t output_index) const;  // a node or the graph reads this output
};

// The extents that a Shape asks for: since operator set 15 those from `start` to `end`.
extents extents_asked(const node_view& n, const extents& shown);
// Input k of a Reshape of a value of these extents, with the extents in place of 0 and -1.
extents reshape_extents(const node_view& n, std::size_t k, const extents& shown);

// The values of a constant by channel (axis 1) of x, if it has one value or one for each channel.
std::optional<std::vector<float>> by_channel_of(const tensor_value& t, const extents& x);

using handler = void (*)(const node_view&);
using handlers = std::vector<std::pair<std::string, handler>>;
handlers window_handlers();
handlers element_handlers();
handlers operand_handlers();
handlers norm_handlers();
handlers shape_handlers();
handlers move_handlers();
handlers dense_handlers();
handlers recurrent_handlers();
handlers constant_handlers();  // of nodes whose inputs are constants, or only shapes
handlers constant_math_handlers();

// Replaces compositions of nodes by one node with an operator of ours: Gelu, GeluTanh, Normalise
// (of the last axes), NormaliseWithin (lrn), Lookup (embedding with padding), and MatMul with a
// bias.
std::vector<node> with_patterns(const model& m);
inline constexpr const char* pattern_domain = "troupe";

// Constants that nodes compute from constants.

inline constexpr std::int64_t most_folded = std::int64_t{1} << 28;  // values of a constant that is computed

// Input k, a constant.
const tensor_value& operand(const node_view& n, std::size_t k);
// A tensor of the type and extents, without values.
tensor_value like(const tensor_value& t, extents dims);

}  // namespace troupe::onnx
