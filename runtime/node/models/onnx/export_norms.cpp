// Normalising layers.
#include "runtime/node/models/onnx/layer_writer.hpp"

namespace troupe::onnx {
namespace {

expected<void> export_softmax(layer_writer& w) {
  w.add(part::whole, "Softmax", {w.input()}, {attribute_of("axis", std::int64_t{1})});
  return {};
}

expected<void> export_lrn(layer_writer& w) {
  const auto& o = w.given();
  const auto size = o.integer("size");
  if (o.text("region") == "across_channels") {
    w.add(part::whole, "LRN", {w.input()},
          {attribute_of("size", size), attribute_of("alpha", o.real("alpha")), attribute_of("beta", o.real("beta")),
           attribute_of("bias", o.real("k"))});
    return {};
  }
  // The mean over a window with zeros around the image is the sum divided by size x size.
  const auto half = size / 2;
  const auto squares = w.add(part::inner, "Mul", {w.input(), w.input()});
  const auto means = w.add(part::inner, "AveragePool", {squares},
                           {list_of("kernel_shape", {size, size}), list_of("pads", {half, half, half, half}),
                            list_of("strides", {1, 1}), attribute_of("count_include_pad", std::int64_t{1})});
  const auto scaled = w.add(part::inner, "Mul", {means, w.scalar("alpha", o.real("alpha"))});
  const auto sum = w.add(part::inner, "Add", {scaled, w.scalar("k", o.real("k"))});
  w.add(part::whole, "Div", {w.input(), w.add(part::inner, "Pow", {sum, w.scalar("beta", o.real("beta"))})});
  return {};
}

expected<void> export_batch_norm(layer_writer& w) {
  const auto channels = w.in()[1];
  const auto n = static_cast<std::size_t>(channels);
  const bool affine = w.has("weight");
  const auto weight = affine ? w.weight("weight") : w.reals("ones", {channels}, std::vector<float>(n, 1.0F));
  const auto bias = affine ? w.weight("bias") : w.reals("zeros", {channels}, std::vector<float>(n, 0.0F));
  // ONNX's momentum is the weight of the old values.
  w.add(part::whole, "BatchNormalization", {w.input(), weight, bias, w.weight("running_mean"), w.weight("running_var")},
        {attribute_of("epsilon", w.given().real("epsilon")), attribute_of("momentum", 1.0 - w.given().real("momentum"))});
  return {};
}

expected<void> export_layer_norm(layer_writer& w) {
  w.needs_opset(17);
  const auto axis = w.given().integer("axis");
  std::vector<std::string> inputs{w.input()};
  if (w.has("weight")) {
    inputs.push_back(w.weight("weight"));
    inputs.push_back(w.weight("bias"));
  } else {
    std::vector<std::int64_t> dims;
    for (auto i = static_cast<int>(axis); i < w.in().rank(); ++i) dims.push_back(w.in()[i]);
    const auto count = static_cast<std::size_t>(w.in().count_from(static_cast<int>(axis)));
    inputs.push_back(w.reals("ones", dims, std::vector<float>(count, 1.0F)));
  }
  w.add(part::whole, "LayerNormalization", inputs,
        {attribute_of("axis", axis), attribute_of("epsilon", w.given().real("epsilon"))});
  return {};
}

}  // namespace

layer_exports norm_exports() {
  return {{"softmax", export_softmax}, {"lrn", export_lrn}, {"batch_norm", export_batch_norm}, {"layer_norm", export_layer_norm}};
}

}  // namespace troupe::onnx
