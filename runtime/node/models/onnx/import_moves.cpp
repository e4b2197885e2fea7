// Operators that move values, and interpolation.
#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "runtime/node/models/onnx/import_state.hpp"

namespace troupe::onnx {
namespace {

using i64 = std::int64_t;

// The axis of Troupe's tensor that is axis a of the view; -1: it has none that can be divided.
int divided_axis(const activation& x, std::size_t a) {
  const auto own = x.axes[a];
  return static_cast<std::size_t>(own) == x.merged && x.merged < x.dims.size() ? -1 : own;
}

// The box of x that begins at `starts`; x itself if it is all of it.
activation box(const node_view& n, const activation& x, const extents& starts, const extents& sizes) {
  const auto shown = x.shown();
  extents base_starts(x.dims.size(), 0), base_sizes = x.dims;
  for (std::size_t a = 0; a < shown.size(); ++a) {
    if (starts[a] == 0 && sizes[a] == shown[a]) continue;
    const auto own = divided_axis(x, a);
    if (own == 0) throw refusal("a part of the batch is not supported");
    if (own < 0) return box(n, plain_of(n.to, x), starts, sizes);
    base_starts[static_cast<std::size_t>(own)] = starts[a], base_sizes[static_cast<std::size_t>(own)] = sizes[a];
  }
  const auto first = std::mismatch(base_sizes.begin(), base_sizes.end(), x.dims.begin()).first - base_sizes.begin();
  if (first == std::ssize(x.dims)) return x;
  const options_given o{{"axis", static_cast<i64>(first)},
                        {"size", extents(base_sizes.begin() + first, base_sizes.end())},
                        {"offsets", extents(base_starts.begin() + first, base_starts.end())}};
  return seen_as(n.layer("crop", {activation_of(x.tensor, x.dims)}, o), x);
}

void take_concat(const node_view& n) {
  std::vector<activation> in;
  std::set<std::size_t> places;
  batch_in_front turned;
  for (std::size_t k = 0; k < n.is.inputs.size(); ++k) {
    turned = with_batch_in_front(n.to, n.active(k));
    in.push_back(turned.plain), places.insert(turned.place);
  }
  if (in.empty() || in.size() > 64) throw refusal("it has " + std::to_string(in.size()) + " inputs; 1 to 64 are supported");
  const auto axis = turned.axis(n.axis(n.integer("axis", 1), in[0].dims.size()));
  if (axis == 0) throw refusal("examples of the batch cannot be concatenated");
  if (places.size() > 1) throw refusal("its inputs have the batch on different axes");
  n.result(turned.back(n.layer("concat", in, {{"axis", axis}})));
}

void take_split(const node_view& n) {
  auto x = n.active(0);
  const auto shown = x.shown();
  const auto axis = static_cast<std::size_t>(n.axis(n.integer("axis", 0), shown.size()));
  if (x.axes[axis] == 0) throw refusal("the batch cannot be split");
  if (divided_axis(x, axis) < 0) x = plain_of(n.to, x);
  const auto extent = shown[axis];
  auto sizes = n.list("split", 1);
  const auto parts = static_cast<i64>(n.is.outputs.size());
  if (sizes.empty() && parts > 0 && extent % parts == 0) sizes.assign(n.is.outputs.size(), extent / parts);
  if (sizes.empty() && parts > 0 && n.integer("num_outputs", 0) == parts) {  // since operator set 18; the last is smaller
    sizes.assign(n.is.outputs.size(), (extent + parts - 1) / parts);
    sizes.back() = extent - sizes[0] * (parts - 1);
  }
  if (static_cast<i64>(sizes.size()) != parts) throw refusal("its parts do not match its outputs");
  i64 sum = 0;
  bool all_read = true;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    if (sizes[k] < 1 || sizes[k] > extent - sum) throw refusal("its parts are not those of an axis of " + std::to_string(extent));
    sum += sizes[k], all_read &= n.read(k);
  }
  if (sum != extent) throw refusal("its parts are not those of an axis of " + std::to_string(extent));
  if (all_read) {
    extents points;
    for (std::size_t k = 0, at = 0; k + 1 < sizes.size(); ++k)
      points.push_back(static_cast<i64>(at += static_cast<std::size_t>(sizes[k])));
    options_given o{{"axis", static_cast<i64>(x.axes[axis])}, {"points", points}};
    if (points.empty()) o["parts"] = i64{1};
    const auto pieces = add_layer(n.to, n.name(), "slice", {activation_of(x.tensor, x.dims)}, o);
    for (std::size_t k = 0; k < pieces.size(); ++k) n.result(seen_as(pieces[k], x), k);
    return;
  }
  extents starts(shown.size(), 0), taken = shown;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    taken[axis] = sizes[k];
    if (n.read(k)) n.result(box(n, x, starts, taken), k);
    starts[axis] += sizes[k];
  }
}

// Bounds of a slice: in old operator sets an attribute, in which the largest integer means the end.
extents bounds_of(const node_view& n, const char* name, std::size_t k) {
  const auto* a = n.find(name);
  return a ? a->integers : n.list(name, k);
}

void take_slice(const node_view& n) {
  const auto& x = n.active(0);
  const auto shown = x.shown();
  const auto starts = bounds_of(n, "starts", 1), ends = bounds_of(n, "ends", 2), steps = n.list("steps", 4);
  auto axes = n.list("axes", 3);
  if (axes.empty())
    for (i64 a = 0; a < std::ssize(starts); ++a) axes.push_back(a);
  if (starts.size() != ends.size() || starts.size() != axes.size()) throw refusal("starts, ends and axes have different lengths");
  if (std::any_of(steps.begin(), steps.end(), [](i64 s) { return s != 1; })) throw refusal("only steps of 1 are supported");
  extents at(shown.size(), 0), sizes = shown;
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const auto a = static_cast<std::size_t>(n.axis(axes[k], shown.size()));
    const auto extent = shown[a];
    const auto place = [&](i64 v) { return std::clamp<i64>(v < 0 ? std::max(v, -extent) + extent : v, 0, extent); };
    at[a] = place(starts[k]), sizes[a] = place(ends[k]) - at[a];
    if (sizes[a] < 1) throw refusal("its result is empty");
  }
  n.result(box(n, x, at, sizes));
}

void take_pad(const node_view& n) {
  const auto x = n.plain(0);
  const auto pads = n.list("pads", 1);
  const auto mode = n.text("mode", "constant");
  if (n.given(3)) throw refusal("pads for some axes are not supported");
  if (pads.size() != 2 * x.dims.size()) throw refusal("it has " + std::to_string(pads.size()) + " pads for " + text_of(x.dims));
  if (std::all_of(pads.begin(), pads.end(), [](i64 p) { return p == 0; })) return n.result(x);
  const auto axes = x.dims.size();
  if ((axes != 3 && axes != 4) || pads[0] + pads[1] + pads[axes] + pads[axes + 1] != 0 ||
      *std::min_element(pads.begin(), pads.end()) < 0)
    throw refusal("only a border around images (N, C, height, width) and series (N, C, length) is supported");
  double fill = n.real("value", 0.0);
  if (n.given(2)) fill = n.reals_of(2, "value", 1)[0];
  if (mode == "constant" && fill != 0.0) throw refusal("a border of another value than 0 is not supported");
  if (mode != "constant" && mode != "reflect" && mode != "edge") throw refusal("mode '" + mode + "' is not supported");
  n.result(n.layer("pad", {x},
                   {{"top", axes == 4 ? pads[2] : 0},
                    {"left", pads[axes - 1]},
                    {"bottom", axes == 4 ? pads[6] : 0},
                    {"right", pads[2 * axes - 1]},
                    {"mode", mode == "constant" ? std::string("zero") : mode}}));
}

// The pixels of an upsample layer: floor(i H / OH).
bool nearest_pixels(const extents& from, i64 extent) {
  const auto out = std::ssize(from);
  for (i64 i = 0; i < out; ++i)
    if (from[static_cast<std::size_t>(i)] != i * extent / out) return false;
  return true;
}

// Rows of a table, one or several consecutive steps of an axis, or the pixels of an enlarged image.
void take_gather(const node_view& n) {
  if (n.constant_at(0)) {
    const auto& table = n.reals(0, "table");
    const auto& ids = n.view(1);
    if (table.dims.size() != 2 || n.integer("axis", 0) != 0 || !ids.ids)
      throw refusal("only rows of a table [ids, outputs], by the data, are supported");
    const auto view = settled(n.to, ids);  // [N] is one id for each example
    const auto rows = n.layer("embedding", {view.plain}, {{"vocabulary", table.dims[0]}, {"outputs", table.dims[1]}},
                              {n.reals_of(0, "table", table.count())});
    return n.result(ids.rank() == 1 ? reshaped(rows, {rows.dims[0], table.dims[1]}) : rows);
  }
  auto from = n.wholes(1, "indices");
  if (const auto& view = n.active(0); !view.in_order()) {
    // The only step of an axis, as in the last state of a recurrent layer.
    const auto a = n.axis(n.integer("axis", 0), view.axes.size());
    const bool only = view.shown()[static_cast<std::size_t>(a)] == 1 && (from == extents{0} || from == extents{-1});
    if (only && std::get<constant>(n.input(1))->dims.empty()) return n.result(dropped(n.to, n.name(), view, {a}));
  }
  const auto& x = n.active(0);
  const auto shown = x.shown();
  const auto axis = n.axis(n.integer("axis", 0), shown.size());
  const auto k = static_cast<std::size_t>(axis);
  const auto rank = std::get<constant>(n.input(1))->dims.size();
  if (x.axes[k] == 0 || rank > 1 || from.empty())
    throw refusal("only indices in one list, along another axis than the batch, are supported");
  for (auto& i : from) {
    if (i < 0) i += shown[k];
    if (i < 0 || i >= shown[k]) throw refusal("an index is outside its axis");
  }
  extents at(shown.size(), 0), sizes = shown;
  at[k] = from[0], sizes[k] = std::ssize(from);
  bool consecutive = true;
  for (std::size_t i = 1; i < from.size(); ++i) consecutive &= from[i] == from[i - 1] + 1;
  if (consecutive) {
    auto y = box(n, x, at, sizes);
    return n.result(rank == 1 ? y : dropped(n.to, n.name() + "_only", y, {axis}));
  }
  if (shown.size() == 4 && axis >= 2 && nearest_pixels(from, shown[k]))
    return n.result(n.layer("upsample", {n.plain(0)}, {{"height", sizes[2]}, {"width", sizes[3]}}));
  throw refusal("its indices are not consecutive");
}

// --- Resize

// Where the output pixels of an axis lie in the input.
struct resized_axis {
  i64 from, to;
  double scale;
};

double place_of(const std::string& mode, const resized_axis& a, i64 j) {
  const auto at = static_cast<double>(j), from = static_cast<double>(a.from), to = static_cast<double>(a.to);
  if (mode == "align_corners") return a.to > 1 ? at * (from - 1) / (to - 1) : 0.0;
  if (mode == "asymmetric") return at / a.scale;
  if (mode == "half_pixel" || (mode == "pytorch_half_pixel" && a.to > 1)) return (at + 0.5) / a.scale - 0.5;
  if (mode == "pytorch_half_pixel") return 0.0;
  throw refusal("coordinate_transformation_mode '" + mode + "' is not supported");
}

i64 nearest_of(const std::string& rounding, double place) {
  const double tie = place - std::floor(place);
  const bool half = std::abs(tie - 0.5) < 1e-9;
  if (rounding == "floor") return static_cast<i64>(std::floor(place + 1e-9));
  if (rounding == "ceil") return static_cast<i64>(std::ceil(place - 1e-9));
  if (rounding == "round_prefer_floor") return static_cast<i64>(half ? std::floor(place) : std::round(place));
  if (rounding == "round_prefer_ceil") return static_cast<i64>(half ? std::ceil(place) : std::round(place));
  throw refusal("nearest_mode '" + rounding + "' is not supported");
}

bool nearest_alike(const node_view& n, const resized_axis& a, const std::string& mode) {
  const auto rounding = n.opset() < 11 ? "floor" : n.text("nearest_mode", "round_prefer_floor");
  extents from;
  for (i64 j = 0; j < a.to; ++j) from.push_back(std::clamp<i64>(nearest_of(rounding, place_of(mode, a, j)), 0, a.from - 1));
  return nearest_pixels(from, a.from);
}

bool linear_alike(const resized_axis& a, const std::string& mode, bool corners) {
  const resized_axis own{a.from, a.to, static_cast<double>(a.to) / static_cast<double>(a.from)};
  const auto most = static_cast<double>(a.from - 1);
  for (i64 j = 0; j < a.to; ++j) {
    const auto mine = std::clamp(place_of(corners ? "align_corners" : "half_pixel", own, j), 0.0, most);
    if (std::abs(std::clamp(place_of(mode, a, j), 0.0, most) - mine) > 1e-5) return false;
  }
  return true;
}

resized_axis resized(i64 from, double scale, i64 size) {
  const auto extent = static_cast<double>(from);
  if (size == 0) {
    if (!(scale > 0 && scale < 1e6)) throw refusal("a scale is not supported");
    size = static_cast<i64>(std::floor(extent * scale + 1e-6 * extent));
  }
  if (size < 1 || size > (1 << 20)) throw refusal("an extent of its result is " + std::to_string(size));
  const double exact = static_cast<double>(size) / extent;
  // A rounded scale stands for the ratio of the extents.
  return {from, size, scale == 0 || std::abs(scale - exact) < 1e-5 * exact ? exact : scale};
}

// Input 1 of Resize-10 and Upsample-9 are the scales, input 2 and 3 of Resize-11 scales and sizes.
void take_resize(const node_view& n) {
  const auto x = n.plain(0);
  if (x.dims.size() != 4) throw refusal("only images (N, C, height, width) are supported");
  if (n.integer("antialias", 0) != 0) throw refusal("antialias = 1 is not supported");
  if (n.has("axes")) throw refusal("sizes for some axes are not supported: give a size for each axis");
  const bool old = n.opset() < 11;
  std::vector<double> scales(4, 0);
  extents sizes(4, 0);
  if (n.has("scales")) {
    const auto& v = n.find("scales")->reals;
    if (v.size() != 4) throw refusal("it has no scale for each axis");
    std::copy(v.begin(), v.end(), scales.begin());
  } else if (const std::size_t k = old ? 1 : 2; n.given(k) && n.reals(k, "scales").count() > 0) {
    const auto v = n.reals_of(k, "scales", 4);
    std::copy(v.begin(), v.end(), scales.begin());
  } else {
    sizes = n.wholes(3, "sizes");
    if (sizes.size() != 4) throw refusal("it has no size for each axis");
  }
  const auto kept = [&](std::size_t a) { return sizes[a] == 0 ? scales[a] == 1 : sizes[a] == x.dims[a]; };
  if (!kept(0) || !kept(1)) throw refusal("only height and width may change");
  const resized_axis rows = resized(x.dims[2], scales[2], sizes[2]), columns = resized(x.dims[3], scales[3], sizes[3]);
  const auto mode = n.text("mode", "nearest"), places = old ? "asymmetric" : n.text("coordinate_transformation_mode", "half_pixel");
  options_given o;
  if (rows.to % rows.from == 0 && columns.to % columns.from == 0 && rows.to / rows.from == columns.to / columns.from)
    o["factor"] = rows.to / rows.from;
  else
    o["height"] = rows.to, o["width"] = columns.to;
  if (mode == "nearest" && nearest_alike(n, rows, places) && nearest_alike(n, columns, places))
    return n.result(n.layer("upsample", {x}, o));
  o["mode"] = std::string("bilinear");
  for (const bool corners : {places == "align_corners", places != "align_corners"}) {
    if (mode != "linear" || !linear_alike(rows, places, corners) || !linear_alike(columns, places, corners)) continue;
    o["align_corners"] = corners;
    return n.result(n.layer("upsample", {x}, o));
  }
  throw refusal("mode '" + mode + "' with coordinates '" + places + "' is not supported for these extents");
}

}  // namespace

handlers move_handlers() {
  return {{"Concat", take_concat}, {"Split", take_split},   {"Slice", take_slice},    {"Pad", take_pad},
          {"Gather", take_gather}, {"Resize", take_resize}, {"Upsample", take_resize}};
}

}  // namespace troupe::onnx
