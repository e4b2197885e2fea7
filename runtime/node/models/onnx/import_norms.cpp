// Normalising operators.
#include "runtime/node/models/onnx/import_state.hpp"

namespace troupe::onnx {
namespace {

void take_batch_norm(const node_view& n) {
  const auto x = n.plain(0);
  if (x.dims.size() < 2) throw refusal("its input has no channels");
  for (std::size_t k = 1; k < n.is.outputs.size(); ++k)
    if (n.read(k)) throw refusal("its statistics are read; export the model for inference");
  const auto channels = x.dims[1];
  n.result(
      n.layer("batch_norm", {x},
              {{"epsilon", n.real("epsilon", 1e-5)}, {"momentum", decimal_of(static_cast<float>(1.0 - n.real("momentum", 0.9)))}},
              {n.reals_of(1, "scale", channels), n.reals_of(2, "bias", channels), n.reals_of(3, "mean", channels),
               n.reals_of(4, "variance", channels)}));
}

// LayerNormalization, and Normalise, its composition, whose weights are optional.
void take_layer_norm(const node_view& n) {
  const auto x = n.plain(0);
  for (std::size_t k = 1; k < n.is.outputs.size(); ++k)
    if (n.read(k)) throw refusal("its output " + std::to_string(k) + ", a statistic, is not supported");
  const auto axis = n.axis(n.integer("axis", -1), x.dims.size());
  if (n.has("count") && axis + n.integer("count", 0) != std::ssize(x.dims))
    throw refusal("a mean over other axes than the last ones is not supported");
  options_given o{{"axis", axis}, {"epsilon", n.real("epsilon", 1e-5)}, {"affine", n.given(1)}};
  const auto count = product(x.dims, static_cast<std::size_t>(axis));
  std::vector<std::vector<float>> weights;
  if (n.given(1)) {
    weights.push_back(n.reals_of(1, "scale", count));
    weights.push_back(n.given(2) ? n.reals_of(2, "bias", count) : std::vector<float>(static_cast<std::size_t>(count), 0.0F));
  }
  n.result(n.layer("layer_norm", {x}, o, std::move(weights)));
}

options_given lrn_options(const node_view& n) {
  return {
      {"size", n.integer("size", 0)}, {"alpha", n.real("alpha", 1e-4)}, {"beta", n.real("beta", 0.75)}, {"k", n.real("bias", 1.0)}};
}

void take_lrn(const node_view& n) { n.result(n.layer("lrn", {n.plain(0)}, lrn_options(n))); }

void take_lrn_within(const node_view& n) {
  auto o = lrn_options(n);
  o["region"] = std::string("within_channel");
  n.result(n.layer("lrn", {n.plain(0)}, o));
}

void take_softmax(const node_view& n) {
  auto x = n.active(0);
  if (x.merged < x.dims.size()) x = plain_of(n.to, x);
  const auto shown = x.shown();
  const auto axis = static_cast<std::size_t>(n.axis(n.integer("axis", n.opset() < 13 ? 1 : -1), shown.size()));
  // Operator sets before 13 normalise all axes from `axis` on together.
  const bool together = n.opset() < 13 && product(shown, axis) != shown[axis];
  if (together || x.axes[axis] != 1)
    throw refusal("a softmax over axis " + std::to_string(axis) + " of " + text_of(shown) +
                  " is not supported, only one over axis 1, the channels");
  const auto view = x;
  auto y = n.layer("softmax", {activation_of(x.tensor, x.dims)});
  y.axes = view.axes, y.merged = view.merged;
  n.result(y);
}

}  // namespace

handlers norm_handlers() {
  return {{"BatchNormalization", take_batch_norm}, {"LayerNormalization", take_layer_norm},
          {"Normalise", take_layer_norm},          {"LRN", take_lrn},
          {"NormaliseWithin", take_lrn_within},    {"Softmax", take_softmax}};
}

}  // namespace troupe::onnx
