// Normalising layers.
#include <limits>

#include "runtime/node/models/onnx/layer_writer.hpp"

namespace troupe::onnx {
namespace {

expected<void> export_softmax(layer_writer& w) {
  const auto axis = w.given().integer("axis");
  auto x = w.input();
  if (w.given().flag("causal")) {
    const auto steps = w.in()[static_cast<int>(axis)];
    std::vector<float> mask(static_cast<std::size_t>(steps * steps), 0.0F);
    for (std::int64_t row = 0; row < steps; ++row)
      for (auto column = row + 1; column < steps; ++column)
        mask[static_cast<std::size_t>(row * steps + column)] = -std::numeric_limits<float>::infinity();
    x = w.add(part::inner, "Add", {x, w.reals("mask", {steps, steps}, std::move(mask))});
  }
  w.add(part::whole, "Softmax", {x}, {attribute_of("axis", axis)});
  return {};
}

std::string uniform(layer_writer& w, const std::string& what, std::int64_t count, float value) {
  return w.reals(what, {count}, std::vector<float>(static_cast<std::size_t>(count), value));
}

expected<void> export_instance_norm(layer_writer& w) {
  const auto channels = w.in()[1];
  const bool affine = w.has("weight");
  w.add(part::whole, "InstanceNormalization",
        {w.input(), affine ? w.weight("weight") : uniform(w, "ones", channels, 1.0F),
         affine ? w.weight("bias") : uniform(w, "zeros", channels, 0.0F)},
        {attribute_of("epsilon", w.given().real("epsilon"))});
  return {};
}

// The instances of [N, groups, values], and the parameters by channel. Operator sets up to 17 have
// no GroupNormalization.
expected<void> export_group_norm(layer_writer& w) {
  const auto groups = w.given().integer("groups"), channels = w.in()[1];
  const auto rows = w.add(part::inner, "Reshape", {w.input(), w.integers("groups", {0, groups, -1})});
  const auto normal =
      w.add(part::main, "InstanceNormalization", {rows, uniform(w, "ones", groups, 1.0F), uniform(w, "zeros", groups, 0.0F)},
            {attribute_of("epsilon", w.given().real("epsilon"))});
  std::vector<std::int64_t> back{0}, by_channel{channels};
  for (int axis = 1; axis < w.in().rank(); ++axis) back.push_back(w.in()[axis]);
  by_channel.resize(static_cast<std::size_t>(w.in().rank() - 1), 1);
  const bool affine = w.has("weight");
  const auto y = w.add(affine ? part::inner : part::last, "Reshape", {normal, w.integers("shape", back)});
  if (!affine) return {};
  const auto scaled = w.add(part::inner, "Mul", {y, w.weight("weight", by_channel)});
  w.add(part::last, "Add", {scaled, w.weight("bias", by_channel)});
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
  return {{"softmax", export_softmax},       {"lrn", export_lrn},
          {"batch_norm", export_batch_norm}, {"layer_norm", export_layer_norm},
          {"group_norm", export_group_norm}, {"instance_norm", export_instance_norm}};
}

}  // namespace troupe::onnx
