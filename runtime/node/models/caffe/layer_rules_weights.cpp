// Rules of the layers that have weights, and the translation of blobs, fillers and factors.
#include <algorithm>
#include <cmath>

#include "runtime/base/wording.hpp"
#include "runtime/node/config/toml_text.hpp"
#include "runtime/node/models/caffe/layer_rules.hpp"

namespace troupe::caffe {
namespace {

std::string dims_text(const std::vector<std::int64_t>& dims) {
  std::string s;
  for (const auto d : dims) s += (s.empty() ? "" : "x") + (d > 0 ? std::to_string(d) : std::string("?"));
  return s.empty() ? "scalar" : s;
}

tensor tensor_with(std::shared_ptr<const std::vector<float>> values, const std::vector<std::int64_t>& dims) {
  shape s;
  for (const auto d : dims) s.push_back(d);
  const auto* data = values->data();
  return tensor::adopt(std::move(values), data, s, dtype::f32);
}

// [b, a] -> [a, b].
std::shared_ptr<const std::vector<float>> transposed_values(const std::vector<float>& from, std::size_t rows, std::size_t columns) {
  auto to = std::make_shared<std::vector<float>>(from.size());
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < columns; ++c) (*to)[c * rows + r] = from[r * columns + c];
  return to;
}

// The extents of the blob as those of the parameter; empty: they do not match.
std::optional<std::vector<std::int64_t>> matching_dims(const blob& b, const std::vector<std::int64_t>& wanted) {
  auto dims = b.dims;
  if (b.old_form)
    while (dims.size() > wanted.size() && dims.front() == 1) dims.erase(dims.begin());
  if (dims.empty() && wanted.size() == 1 && (wanted[0] == 1 || wanted[0] == 0)) dims = {1};  // a shared slope
  if (dims.size() != wanted.size()) return std::nullopt;
  for (std::size_t i = 0; i < dims.size(); ++i)
    if (dims[i] < 1 || (wanted[i] > 0 && wanted[i] != dims[i])) return std::nullopt;
  return dims;
}

void set_factors(layer_mapping& m, std::size_t params, double decay_of_troupe) {
  auto factors = m.from.params;
  if (factors.size() > params)
    m.fields().error(
        m.fields().has("param") ? "param" : "blobs_lr",
        "has factors for " + std::to_string(factors.size()) + " parameters, but the layer has " + std::to_string(params));
  factors.resize(params);
  std::vector<double> lr, decay;
  for (std::size_t k = 0; k < params; ++k)
    if (!m.from.shares.contains(k)) lr.push_back(factors[k].lr), decay.push_back(factors[k].decay);
  if (std::any_of(lr.begin(), lr.end(), [](double v) { return v != 1; })) m.to.set("lr_scale", toml_text(lr));
  if (std::any_of(decay.begin(), decay.end(), [&](double v) { return v != decay_of_troupe; }))
    m.to.set("decay_scale", toml_text(decay));
}

std::int64_t required(message_reader& p, const std::string& name) {
  if (!p.has(name)) p.error(name, in_quotes(name) + " is missing");
  return p.integer(name, 1, 1);
}

struct image_extents {
  extents kernel, stride, pad, dilation;
  std::int64_t outputs = 0, groups = 1;
  bool bias = true;
};

image_extents read_convolution(layer_mapping& m, message_reader& p) {
  image_extents e;
  e.outputs = required(p, "num_output");
  e.groups = p.integer("group", 1, 1);
  e.bias = p.flag("bias_term", true);
  e.kernel = read_extents(p, "kernel_size", "kernel_h", "kernel_w", 1, 1);
  e.stride = read_extents(p, "stride", "stride_h", "stride_w", 1, 1);
  e.pad = read_extents(p, "pad", "pad_h", "pad_w", 0, 0);
  e.dilation = read_extents(p, "dilation", "", "", 1, 1);
  p.ignore({"engine", "force_nd_im2col"});
  p.only("axis", 1);
  if (!e.kernel.given) p.error("kernel_size", "'kernel_size' is missing");
  m.to.set("outputs", toml_text(e.outputs));
  m.to.set("kernel", e.kernel.toml());
  if (!e.stride.are(1)) m.to.set("stride", e.stride.toml());
  if (!e.pad.are(0)) m.to.set("pad", e.pad.toml());
  if (!e.dilation.are(1)) m.to.set("dilation", e.dilation.toml());
  if (e.groups != 1) m.to.set("groups", toml_text(e.groups));
  if (!e.bias) m.to.set("bias", "false");
  m.filler(p, "weight_filler", "weight_filler");
  m.filler(p, "bias_filler", "bias_filler");
  m.to.features = e.outputs;
  m.to.image = true;
  return e;
}

}  // namespace

// The layer whose parameters it shares: all of them, or one.
void layer_mapping::take_shares(const std::vector<wanted>& list) {
  if (from.shares.empty()) return;
  const auto& owner = from.shares.begin()->second.layer;
  const bool same = std::all_of(from.shares.begin(), from.shares.end(), [&](const auto& s) {
    return s.second.layer == owner && s.second.index == s.first && s.first < list.size();
  });
  if (!same || (from.shares.size() != 1 && from.shares.size() != list.size()))
    return from.error(
        "shares parameters with several layers, or one with another place in its layer, which Troupe's layers do not");
  to.owner = owner;
  if (from.shares.size() != list.size()) to.shared = list[from.shares.begin()->first].name;
}

void layer_mapping::parameters(const std::vector<wanted>& list, double decay_of_troupe) {
  to.params = list.size();
  take_shares(list);
  set_factors(*this, list.size(), decay_of_troupe);
  if (!with_weights) return;
  if (from.blobs.empty()) return from.error("the .caffemodel has no weights for it");
  if (from.blobs.size() != list.size())
    return from.error("the .caffemodel has " + std::to_string(from.blobs.size()) + " blobs for it, but it has " +
                      std::to_string(list.size()) + " parameters here");
  for (std::size_t k = 0; k < list.size(); ++k) {
    if (from.shares.contains(k)) continue;
    const auto& b = *from.blobs[k];
    auto asked = list[k].dims;
    if (list[k].transposed) std::swap(asked[0], asked[1]);
    auto dims = matching_dims(b, asked);
    if (!dims) {
      from.error("its blob " + std::to_string(k) + " (" + list[k].name + ") has the shape " + b.shape_text() + ", expected " +
                 dims_text(asked));
      continue;
    }
    auto values = b.values;
    if (list[k].transposed) {
      values = transposed_values(*values, static_cast<std::size_t>((*dims)[0]), static_cast<std::size_t>((*dims)[1]));
      std::swap((*dims)[0], (*dims)[1]);
    }
    to.weights.emplace_back(list[k].name, tensor_with(std::move(values), *dims));
  }
}

void layer_mapping::filler(message_reader& m, const std::string& field, const std::string& key) {
  if (!m.has(field)) {
    if (field == "weight_filler")
      found.note("layers without a weight_filler begin with Troupe's default filler; in Caffe their weights would be 0");
    return;
  }
  auto f = m.message(field);
  const auto type = f.text("type", "constant");
  const auto norm = f.word("variance_norm", "FAN_IN", {"FAN_IN", "FAN_OUT", "AVERAGE"});
  const auto value = f.real("value", 0), min = f.real("min", 0), max = f.real("max", 1), mean = f.real("mean", 0),
             std_ = f.real("std", 1);
  if (f.integer("sparse", -1, -1) >= 0)
    found.note(from.title() + ": the 'sparse' of its filler is left out: all weights begin with numbers, not some with 0");
  std::string text = "{ kind = " + toml_text(type);
  if (type == "constant") {
    if (field == "bias_filler" && value == 0) return;  // the default of both
    text += ", value = " + toml_text(value);
  } else if (type == "uniform") {
    text += ", min = " + toml_text(min) + ", max = " + toml_text(max);
  } else if (type == "gaussian") {
    text += ", mean = " + toml_text(mean) + ", std = " + toml_text(std_);
  } else if (type == "bilinear") {
    // Troupe's has no options.
  } else if (type == "xavier" || type == "msra") {
    if (norm != "FAN_IN") text += std::string(", norm = ") + (norm == "FAN_OUT" ? "\"fan_out\"" : "\"average\"");
  } else if (with_weights) {
    found.note(from.title() + " has the filler " + in_quotes(type) +
               ", which Troupe lacks; it counts only for a net that begins "
               "without the weights of the .caffemodel");
    return;
  } else {
    f.error("type", "Troupe has no filler " + in_quotes(type));
    return;
  }
  to.set(key, text + " }");
}

std::string layer_mapping::insert(const std::string& suffix, const std::string& type, std::vector<std::string> inputs) {
  job_layer l;
  l.name = fresh_name(to.name + suffix), l.type = type, l.phase = to.phase, l.inputs = std::move(inputs);
  l.image = true;
  before.push_back(std::move(l));
  return before.back().name;
}

std::vector<std::int64_t> layer_mapping::image_extents() {
  auto e = to.inputs.empty() ? std::vector<std::int64_t>() : extents_of(to.inputs[0]);
  if (e.size() == 3) return e;
  from.error(
      "the extents of its bottom must be known, but the net does not say those of its data: give the net a layer Input with the "
      "shape of an example");
  return {};
}

void layer_mapping::constant(const char* name, const std::string& key, double value) {
  to.set(key, "{ kind = \"constant\", value = " + toml_text(value) + " }");
  if (!with_weights) return;
  if (channels < 1) return from.error("the number of channels of its bottom is not known");
  to.weights.emplace_back(
      name, tensor_with(std::make_shared<const std::vector<float>>(static_cast<std::size_t>(channels), static_cast<float>(value)),
                        {channels}));
}

void layer_mapping::flat_parameter(std::size_t k, const char* name) {
  const auto& b = *from.blobs[k];
  const auto count = static_cast<std::int64_t>(b.values->size());
  if (count < 1 || std::count(b.dims.begin(), b.dims.end(), 1) + 1 < std::ssize(b.dims))
    return from.error("its blob " + std::to_string(k) + " (" + name + ") has the shape " + b.shape_text() +
                      ", expected a number for each channel");
  to.weights.emplace_back(name, tensor_with(b.values, {count}));
}

void layer_mapping::shared_scale() {
  if (from.blobs.size() != 1 || from.blobs[0]->values->size() != 1)
    return from.error("the .caffemodel has other blobs for it than one number");
  const auto value = (*from.blobs[0]->values)[0];
  to.weights.emplace_back(
      "weight", tensor_with(std::make_shared<const std::vector<float>>(static_cast<std::size_t>(channels), value), {channels}));
}

// A group for each channel.
void map_depthwise(layer_mapping& m) {
  m.to.type = "convolution";
  auto p = m.fields().message("convolution_param");
  auto e = read_convolution(m, p);
  if (e.groups == 1) m.to.set("groups", toml_text(e.outputs));
  std::vector<layer_mapping::wanted> list{{"weight", {e.outputs, 1, e.kernel.h, e.kernel.w}}};
  if (e.bias) list.push_back({"bias", {e.outputs}});
  m.parameters(list);
}

void map_convolution(layer_mapping& m) {
  m.to.type = "convolution";
  auto p = m.fields().message("convolution_param");
  const auto e = read_convolution(m, p);
  std::vector<layer_mapping::wanted> list{{"weight", {e.outputs, 0, e.kernel.h, e.kernel.w}}};
  if (e.bias) list.push_back({"bias", {e.outputs}});
  m.parameters(list);
}

void map_deconvolution(layer_mapping& m) {
  m.to.type = "deconvolution";
  auto p = m.fields().message("convolution_param");
  const auto e = read_convolution(m, p);
  if (e.outputs % e.groups != 0) p.error("group", "'group' does not divide 'num_output'");
  std::vector<layer_mapping::wanted> list{{"weight", {0, e.outputs / e.groups, e.kernel.h, e.kernel.w}}};
  if (e.bias) list.push_back({"bias", {e.outputs}});
  m.parameters(list);
}

void map_inner_product(layer_mapping& m) {
  m.to.type = "linear";
  auto p = m.fields().message("inner_product_param");
  p.ignore({"engine"});
  const auto outputs = required(p, "num_output");
  const auto bias = p.flag("bias_term", true), transposed = p.flag("transpose", false);
  const auto axis = p.integer("axis", 1, 1, 5);
  m.to.set("outputs", toml_text(outputs));
  if (axis != 1) m.to.set("axis", toml_text(axis));
  if (!bias) m.to.set("bias", "false");
  m.filler(p, "weight_filler", "weight_filler");
  m.filler(p, "bias_filler", "bias_filler");
  m.to.features = outputs;
  std::vector<layer_mapping::wanted> list{{"weight", {outputs, 0}, transposed}};
  if (bias) list.push_back({"bias", {outputs}});
  m.parameters(list);
}

void map_embed(layer_mapping& m) {
  m.to.type = "embedding";
  auto p = m.fields().message("embed_param");
  const auto outputs = required(p, "num_output"), vocabulary = required(p, "input_dim");
  if (p.flag("bias_term", true)) p.error("bias_term", "Troupe's embedding has no bias: set bias_term: false");
  p.ignore({"bias_filler"});
  m.to.set("vocabulary", toml_text(vocabulary));
  m.to.set("outputs", toml_text(outputs));
  m.filler(p, "weight_filler", "weight_filler");
  m.to.features = outputs;
  m.parameters({{"weight", {vocabulary, outputs}}});
}

void map_prelu(layer_mapping& m) {
  m.to.type = "prelu";
  auto p = m.fields().message("prelu_param");
  const auto shared = p.flag("channel_shared", false);
  if (shared) m.to.set("shared", "true");
  if (p.has("filler")) {
    auto f = p.message("filler");
    if (f.text("type", "constant") != "constant")
      f.error("type", "the slopes of Troupe's prelu begin with one value: use \"constant\"");
    m.to.set("slope", toml_text(f.real("value", 0)));
  }
  m.to.image = m.image;
  m.parameters({{"slope", {shared ? 1 : 0}}}, 0);
}

void map_batch_norm(layer_mapping& m) {
  m.to.type = "batch_norm";
  auto p = m.fields().message("batch_norm_param");
  // NVIDIA's has the affine part inside (scale_bias). Intel's names its fillers too, and is
  // followed by a Scale; its affine part is known by the blobs.
  const bool affine = p.flag("scale_bias", false) || (m.with_weights && m.from.blobs.size() == 5);
  p.ignore({"engine", "use_weight_bias", "bias_term", "filler", "scale_filler", "bias_filler"});
  if (p.flag("relu", false)) p.error("relu", "'relu' must be false for Troupe: use a layer ReLU");
  const auto fixed = p.flag("use_global_stats", false);
  const auto fraction = p.real("moving_average_fraction", 0.999);
  const auto eps = p.real("eps", 1e-5);
  if (fraction < 0 || fraction > 1) p.error("moving_average_fraction", "'moving_average_fraction' is between 0 and 1");
  // Rounded to 12 decimals, so that 0.999 gives 0.001.
  m.to.set("momentum", toml_text(fixed ? 0.0 : std::round((1 - fraction) * 1e12) / 1e12));
  if (fixed)
    m.found.note(m.from.title() +
                 ": 'use_global_stats' holds in tests only. In training Troupe's batch_norm uses the packet's "
                 "statistics; the running ones stay (momentum = 0)");
  m.to.set("epsilon", toml_text(eps));
  if (!affine) m.to.set("affine", "false");
  m.to.image = m.image;
  m.to.params = affine ? 4 : 2;
  for (const auto& f : m.from.params)
    if (!affine && f.lr != 0) m.found.note(m.from.title() + ": its factors lr_mult are ignored, its parameters are statistics");
  if (!m.with_weights) return;
  if (m.from.blobs.size() != (affine ? 5 : 3)) {
    m.from.error("the .caffemodel has " + std::to_string(m.from.blobs.size()) +
                 " blobs for it, expected mean, variance and factor" + (affine ? ", scale and bias" : ""));
    return;
  }
  for (std::size_t k = 3; k < m.from.blobs.size(); ++k) m.flat_parameter(k, k == 3 ? "weight" : "bias");
  const auto factor = matching_dims(*m.from.blobs[2], {1});
  for (std::size_t k = 0; k < 2; ++k) {
    const auto dims = matching_dims(*m.from.blobs[k], {0});
    if (!dims || !factor) {
      m.from.error("its blob " + std::to_string(factor ? k : 2) + " has the shape " + m.from.blobs[factor ? k : 2]->shape_text() +
                   ", expected " + (factor ? "one axis" : "1"));
      return;
    }
    m.to.weights.emplace_back(k == 0 ? "running_mean" : "running_var",
                              tensor_with(std::make_shared<const std::vector<float>>(
                                              unscaled_statistics(*m.from.blobs[k]->values, (*m.from.blobs[2]->values)[0])),
                                          *dims));
  }
}

// BN of SegNet and of PSPNet. With bn_mode: INFERENCE its two blobs are the scale and shift of each
// channel, which include the statistics; PSPNet's four are slope, bias, mean and variance.
void map_bn(layer_mapping& m) {
  auto p = m.fields().message("bn_param");
  p.ignore({"scale_filler", "shift_filler", "slope_filler", "bias_filler"});
  const auto eps = p.real("eps", p.real("var_eps", 1e-5)), momentum = p.real("momentum", 0.9);
  const auto frozen = p.flag("frozen", false);
  m.to.image = m.image;
  static const std::vector<const char*> all{"weight", "bias", "running_mean", "running_var"};
  const bool scale = p.word("bn_mode", "LEARN", {"LEARN", "INFERENCE"}) == "INFERENCE";
  m.to.type = scale ? "scale" : "batch_norm";
  m.to.params = scale ? 2 : 4;
  if (scale) {
    m.to.set("bias", "true");
  } else {
    m.to.set("momentum", toml_text(frozen ? 0.0 : std::round((1 - momentum) * 1e12) / 1e12));
    m.to.set("epsilon", toml_text(eps));
  }
  if (!m.with_weights) return;
  if (m.from.blobs.size() != m.to.params)
    return m.from.error("the .caffemodel has " + std::to_string(m.from.blobs.size()) + " blobs for it, expected " +
                        (scale ? "scale and shift" : "slope, bias, mean and variance"));
  for (std::size_t k = 0; k < m.to.params; ++k) m.flat_parameter(k, all[k]);
}

// The values of the second bottom, one for each channel of each example.
void map_scale_by_input(layer_mapping& m, message_reader& p) {
  const auto axis = p.integer("axis", 1, -4, 5);
  if (m.from.bottoms.size() != 2 || axis != 0) return m.from.error("with a second bottom, 'axis' must be 0 for Troupe");
  if (p.flag("bias_term", false)) p.error("bias_term", "with a second bottom there is no bias in Troupe");
  p.ignore({"num_axes", "filler", "bias_filler"});
  m.to.type = "channel_scale", m.to.image = m.image;
}

void map_scale(layer_mapping& m) {
  m.to.type = "scale";
  auto p = m.fields().message("scale_param");
  if (m.from.bottoms.size() != 1) return map_scale_by_input(m, p);
  p.only("axis", 1);
  p.only("num_axes", 1);
  const auto bias = p.flag("bias_term", false);
  if (bias) m.to.set("bias", "true");
  m.filler(p, "filler", "weight_filler");
  m.filler(p, "bias_filler", "bias_filler");
  m.to.image = m.image;
  std::vector<layer_mapping::wanted> list{{"weight", {0}}};
  if (bias) list.push_back({"bias", {0}});
  m.parameters(list);
  const auto unusual = [](const std::pair<std::string, std::string>& key) {
    return (key.first == "weight_filler" && key.second != "{ kind = \"constant\", value = 1.0 }") || key.first == "bias_filler";
  };
  m.to.mergeable = bias && std::none_of(m.to.keys.begin(), m.to.keys.end(), unusual);
}

void map_bias(layer_mapping& m) {
  m.to.type = "bias";
  auto p = m.fields().message("bias_param");
  if (m.from.bottoms.size() != 1) m.from.error("Troupe's bias has its own values: a second bottom is not supported");
  p.only("axis", 1);
  p.only("num_axes", 1);
  m.filler(p, "filler", "bias_filler");
  m.to.image = m.image;
  m.parameters({{"bias", {0}}});
}

std::string extents::toml() const { return h == w ? toml_text(h) : toml_text(std::vector<std::int64_t>{h, w}); }

extents read_extents(message_reader& p, const std::string& both, const std::string& h, const std::string& w, std::int64_t otherwise,
                     std::int64_t least) {
  extents e{otherwise, otherwise, false};
  const auto list = p.integers(both, least);
  const auto apart = !h.empty() && (p.has(h) || p.has(w));
  if (list.size() > 2) p.error(both, in_quotes(both) + " has more than two values, for images");
  if (!list.empty()) e = {list.front(), list.size() > 1 ? list[1] : list[0], true};
  if (h.empty()) return e;
  if (apart && !list.empty()) p.error(both, "has both " + in_quotes(both) + " and " + in_quotes(h) + " or " + in_quotes(w));
  if (apart) {
    e = {p.integer(h, otherwise, least), p.integer(w, otherwise, least), true};
    if (otherwise == 1 && least == 1 && !(p.has(h) && p.has(w)) && both == "kernel_size")
      p.error(p.has(h) ? h : w, in_quotes(h) + " and " + in_quotes(w) + " belong together");
  }
  return e;
}

std::vector<float> unscaled_statistics(const std::vector<float>& sums, float factor) {
  const float scale = factor == 0 ? 0 : 1 / factor;
  auto values = sums;
  if (scale != 1)
    for (auto& v : values) v *= scale;
  return values;
}

}  // namespace troupe::caffe
