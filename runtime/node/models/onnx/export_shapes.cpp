// Layers that move values, and interpolation.
#include <cmath>
#include <limits>

#include "runtime/node/models/onnx/layer_writer.hpp"

namespace troupe::onnx {
namespace {

expected<void> export_flatten(layer_writer& w) {
  w.add(part::whole, "Flatten", {w.input()}, {attribute_of("axis", std::int64_t{1})});
  return {};
}

// An extent 0 keeps the batch, which is not known.
expected<void> export_reshape(layer_writer& w) {
  std::vector<std::int64_t> to{0};
  for (int axis = 1; axis < w.out().rank(); ++axis) to.push_back(w.out()[axis]);
  w.add(part::whole, "Reshape", {w.input(), w.integers("shape", to)});
  return {};
}

expected<void> export_permute(layer_writer& w) {
  std::vector<std::int64_t> perm{0};
  for (const auto axis : w.given().get<std::vector<std::int64_t>>("order")) perm.push_back(axis);
  w.add(part::whole, "Transpose", {w.input()}, {list_of("perm", perm)});
  return {};
}

expected<void> export_concat(layer_writer& w) {
  std::vector<std::string> inputs;
  for (std::size_t k = 0; k < w.layer().inputs.size(); ++k) inputs.push_back(w.input(k));
  w.add(part::whole, "Concat", inputs, {attribute_of("axis", w.given().integer("axis"))});
  return {};
}

expected<void> export_slice(layer_writer& w) {
  const auto axis = w.given().integer("axis");
  std::vector<std::int64_t> sizes;
  for (const auto& piece : w.layer().out) sizes.push_back(piece[static_cast<int>(axis)]);
  w.add_all("Split", {w.input(), w.integers("split", sizes)}, {attribute_of("axis", axis)});
  return {};
}

expected<void> export_split(layer_writer& w) {
  for (std::size_t k = 0; k < w.layer().out.size(); ++k) w.add_copy(k);
  return {};
}

expected<void> export_crop(layer_writer& w) {
  const auto axis = w.given().integer("axis");
  const auto& offsets = w.given().get<std::vector<std::int64_t>>("offsets");
  std::vector<std::int64_t> starts, ends, axes;
  for (auto k = axis; k < w.in().rank(); ++k) {
    const auto at = offsets.empty() ? 0 : offsets.size() == 1 ? offsets[0] : offsets[static_cast<std::size_t>(k - axis)];
    axes.push_back(k), starts.push_back(at), ends.push_back(at + w.out()[static_cast<int>(k)]);
  }
  w.add(part::whole, "Slice", {w.input(), w.integers("starts", starts), w.integers("ends", ends), w.integers("axes", axes)});
  return {};
}

expected<void> export_pad(layer_writer& w) {
  const auto& o = w.given();
  const auto side = [&](const char* name) { return o.integer(name) >= 0 ? o.integer(name) : o.integer("pad"); };
  const auto& mode = o.text("mode");
  const auto pads = w.in().rank() == 4
                        ? std::vector<std::int64_t>{0, 0, side("top"), side("left"), 0, 0, side("bottom"), side("right")}
                        : std::vector<std::int64_t>{0, 0, side("left"), 0, 0, side("right")};
  w.add(part::whole, "Pad", {w.input(), w.integers("pads", pads)},
        {attribute_of("mode", mode == "zero" ? std::string("constant") : mode)});
  return {};
}

// The smallest float that is at least to / from, so that floor(from x scale) is `to`.
float scale_of(std::int64_t from, std::int64_t to) {
  auto s = static_cast<float>(static_cast<double>(to) / static_cast<double>(from));
  if (static_cast<double>(s) * static_cast<double>(from) < static_cast<double>(to))
    s = std::nextafter(s, std::numeric_limits<float>::max());
  return s;
}

bool exact(std::int64_t from, std::int64_t to) { return scale_of(from, to) * static_cast<double>(from) == static_cast<double>(to); }

// floor(i / scale) is wrong for a rounded scale: the pixels are listed.
expected<void> export_nearest_by_index(layer_writer& w) {
  const auto along = [&](int axis) {
    std::vector<std::int64_t> from;
    for (std::int64_t i = 0; i < w.out()[axis]; ++i) from.push_back(i * w.in()[axis] / w.out()[axis]);
    return from;
  };
  const auto rows =
      w.add(part::inner, "Gather", {w.input(), w.integers("rows", along(2))}, {attribute_of("axis", std::int64_t{2})});
  w.add(part::whole, "Gather", {rows, w.integers("columns", along(3))}, {attribute_of("axis", std::int64_t{3})});
  return {};
}

expected<void> export_upsample(layer_writer& w) {
  const auto& x = w.in();
  const auto& y = w.out();
  const bool bilinear = w.given().text("mode") == "bilinear", corners = w.given().flag("align_corners");
  if (!bilinear && !(exact(x[2], y[2]) && exact(x[3], y[3]))) return export_nearest_by_index(w);
  auto input = w.input();
  std::vector<float> scales{1, 1, scale_of(x[2], y[2]), scale_of(x[3], y[3])};
  for (int axis = 2; corners && axis < 4; ++axis) {
    if (y[axis] > 1 || x[axis] == 1) continue;
    // A single output pixel is the first input pixel; ONNX's formula divides by the output extent -
    // 1.
    const auto which = std::to_string(axis);
    input = w.add(part::inner, "Slice",
                  {input, w.integers("start" + which, {0}), w.integers("end" + which, {1}), w.integers("axis" + which, {axis})});
    scales[static_cast<std::size_t>(axis)] = 1;
  }
  attributes with{attribute_of("mode", std::string(bilinear ? "linear" : "nearest")),
                  attribute_of("coordinate_transformation_mode", std::string(!bilinear ? "asymmetric"
                                                                             : corners ? "align_corners"
                                                                                       : "half_pixel"))};
  if (!bilinear) with.push_back(attribute_of("nearest_mode", std::string("floor")));
  w.add(part::whole, "Resize", {input, "", w.reals("scales", {4}, scales)}, std::move(with));
  return {};
}

}  // namespace

layer_exports shape_exports() {
  return {{"flatten", export_flatten}, {"reshape", export_reshape}, {"permute", export_permute},
          {"concat", export_concat},   {"slice", export_slice},     {"split", export_split},
          {"crop", export_crop},       {"pad", export_pad},         {"upsample", export_upsample}};
}

}  // namespace troupe::onnx
