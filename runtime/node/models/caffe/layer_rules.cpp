// Rules of the layers without weights, and the table of all rules.
#include "runtime/node/models/caffe/layer_rules.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "runtime/base/wording.hpp"
#include "runtime/node/config/toml_text.hpp"

namespace troupe::caffe {
namespace {

// --- element by element

void map_relu(layer_mapping& m) {
  m.to.type = "relu", m.to.image = m.image;
  auto p = m.fields().message("relu_param");
  p.ignore({"engine"});
  const auto slope = p.real("negative_slope", 0);
  if (slope < 0) p.error("negative_slope", "Troupe's relu has no negative slope");
  if (slope != 0) m.to.set("slope", toml_text(slope));
}

void map_elu(layer_mapping& m) {
  m.to.type = "elu", m.to.image = m.image;
  auto p = m.fields().message("elu_param");
  const auto alpha = p.real("alpha", 1);
  if (alpha < 0) p.error("alpha", "Troupe's elu has no negative alpha");
  if (alpha != 1) m.to.set("alpha", toml_text(alpha));
}

// lambda elu(x): Klambauer et al. 2017.
void map_selu(layer_mapping& m) {
  auto p = m.fields().message("selu_param");
  const auto alpha = p.real("alpha", 1.6732632423543772), lambda = p.real("lambda", 1.0507009873554805);
  if (alpha < 0) p.error("alpha", "Troupe's elu has no negative alpha");
  const auto curve = m.insert("_elu", "elu", {m.to.inputs[0]});
  m.set_of_inserted({{"alpha", toml_text(alpha)}});
  m.to.type = "eltwise", m.to.image = m.image;
  m.to.inputs = {curve};
  m.to.set("coeffs", toml_text(std::vector<double>{lambda}));
}

void map_sigmoid(layer_mapping& m) {
  m.to.type = "sigmoid", m.to.image = m.image;
  m.fields().message("sigmoid_param").ignore({"engine"});
}

void map_tanh(layer_mapping& m) {
  m.to.type = "tanh", m.to.image = m.image;
  m.fields().message("tanh_param").ignore({"engine"});
}

void map_dropout(layer_mapping& m) {
  m.to.type = "dropout", m.to.image = m.image;
  auto p = m.fields().message("dropout_param");
  const auto ratio = p.real("dropout_ratio", 0.5);
  if (ratio < 0 || ratio >= 1) p.error("dropout_ratio", "'dropout_ratio' is from 0 to below 1");
  m.to.set("ratio", toml_text(ratio));
  if (p.flag("sample_weights_test", false))
    m.found.note(m.from.title() + ": 'sample_weights_test' is left out: Troupe's dropout has no effect in tests");
}

void map_eltwise(layer_mapping& m) {
  m.to.type = "eltwise", m.to.image = m.image;
  auto p = m.fields().message("eltwise_param");
  p.ignore({"stable_prod_grad", "engine"});
  const auto operation = p.word("operation", "SUM", {"PROD", "SUM", "MAX"});
  const auto coeffs = p.reals("coeff");
  if (operation != "SUM") m.to.set("operation", operation == "PROD" ? "\"prod\"" : "\"max\"");
  if (!coeffs.empty() && operation != "SUM") p.error("coeff", "'coeff' belongs to the operation SUM");
  if (!coeffs.empty() && coeffs.size() != m.from.bottoms.size())
    p.error("coeff", "there are " + std::to_string(coeffs.size()) + " coefficients for " + std::to_string(m.from.bottoms.size()) +
                         " bottoms");
  if (!coeffs.empty()) m.to.set("coeffs", toml_text(coeffs));
}

void map_relu6(layer_mapping& m) {
  m.to.type = "relu6", m.to.image = m.image;
  auto p = m.fields().message("relu6_param");
  if (p.real("negative_slope", 0) != 0) p.error("negative_slope", "Troupe's relu6 has no negative slope");
}

void map_swish(layer_mapping& m) {
  m.to.type = "silu", m.to.image = m.image;
  auto p = m.fields().message("swish_param");
  if (p.real("beta", 1) != 1) p.error("beta", "'beta' must be 1 for Troupe");
}

// (shift + scale x) ^ power, for the power 1: constants of a layer scale, or a coefficient.
void map_power(layer_mapping& m) {
  m.to.image = m.image;
  auto p = m.fields().message("power_param");
  const auto power = p.real("power", 1), scale = p.real("scale", 1), shift = p.real("shift", 0);
  if (power != 1) p.error("power", "'power' must be 1 for Troupe");
  if (shift == 0) {
    m.to.type = "eltwise";
    m.to.set("coeffs", toml_text(std::vector<double>{scale}));
    return;
  }
  m.to.type = "scale";
  m.to.set("bias", "true");
  m.constant("weight", "weight_filler", scale);
  m.constant("bias", "bias_filler", shift);
  m.to.set("lr_scale", "[0.0, 0.0]");
  m.to.set("decay_scale", "[0.0, 0.0]");
}

// scale x + y, the scale a number for each channel of each example.
void map_axpy(layer_mapping& m) {
  if (m.from.bottoms.size() != 3) return m.from.error("an Axpy has three bottoms");
  const auto scaled = m.insert("_scaled", "channel_scale", {m.to.inputs[1], m.to.inputs[0]});
  m.to.type = "eltwise", m.to.image = true;
  m.to.inputs = {scaled, m.to.inputs[2]};
}

// --- images

// (n - 1) / shrink + 1, of which (n - 1) zoom + 1.
std::int64_t interpolated(std::int64_t extent, std::int64_t shrink, std::int64_t zoom) {
  return ((extent - 1) / shrink) * zoom + 1;
}

// To height and width, or by factors, which come first; corners stay in place.
void map_interp(layer_mapping& m) {
  m.to.type = "upsample", m.to.image = true;
  auto p = m.fields().message("interp_param");
  auto height = p.integer("height", 0, 1, 65535), width = p.integer("width", 0, 1, 65535);
  const auto zoom = p.integer("zoom_factor", 1, 1, 4096), shrink = p.integer("shrink_factor", 1, 1, 4096);
  for (const auto* pad : {"pad_beg", "pad_end"}) {
    if (p.integer(pad, 0, -1'000'000) != 0) p.error(pad, in_quotes(pad) + " must be 0 for Troupe");
  }
  p.ignore({"use_blob_size"});
  if (m.from.bottoms.size() != 1)
    return m.from.error("the extents of a second bottom are not supported: give 'height' and 'width'");
  if (p.has("zoom_factor") || p.has("shrink_factor")) {
    const auto e = m.image_extents();
    if (e.empty()) return;
    height = interpolated(e[1], shrink, zoom), width = interpolated(e[2], shrink, zoom);
  }
  if (height == 0 || width == 0) p.error("height", "'height' and 'width', or a factor, are missing");
  m.to.set("height", toml_text(height));
  m.to.set("width", toml_text(width));
  m.to.set("mode", "\"bilinear\"");
  m.to.set("align_corners", "true");
}

// SegNet's has the positions of maxima as its second bottom: values go back to where a Pooling
// found them. The result has the extents of that Pooling's input.
void map_unpool(layer_mapping& m, message_reader& p, std::int64_t factor) {
  if (m.from.bottoms.size() != 2 || !m.mask)
    return m.from.error("its second bottom must be the positions of the maxima, the second top of a Pooling");
  const auto h = p.integer("scale_h", factor, 1, 4096), w = p.integer("scale_w", factor, 1, 4096);
  if (!p.has("upsample_h") && (h != m.mask->stride_h || w != m.mask->stride_w))
    return m.from.error(
        "its scale is not the stride of the Pooling that has made its second bottom, so its extents are not those "
        "of that Pooling's input");
  m.to.type = "unpool";
  m.to.keys = m.mask->keys;
}

using extent_list = std::vector<std::int64_t>;

// A reshape, a permute and a reshape: the last is the layer itself.
void move_axes(layer_mapping& m, const extent_list& apart, const extent_list& order, const extent_list& result) {
  const auto split = m.insert("_apart", "reshape", {m.to.inputs[0]});
  m.set_of_inserted({{"shape", toml_text(apart)}});
  const auto moved = m.insert("_moved", "permute", {split});
  m.set_of_inserted({{"order", toml_text(order)}});
  m.to.inputs = {moved};
  m.to.type = "reshape", m.to.image = true;
  m.to.set("shape", toml_text(result));
  m.to.features = result[0];
}

// Channel i C / g + j becomes j g + i, for g groups.
void map_shuffle(layer_mapping& m) {
  auto p = m.fields().message("shuffle_channel_param");
  const auto groups = p.integer("group", 1, 1);
  const auto e = m.image_extents();
  if (e.empty()) return;
  if (e[0] % groups != 0) return p.error("group", "'group' does not divide the " + std::to_string(e[0]) + " channels");
  move_axes(m, {groups, e[0] / groups, e[1] * e[2]}, {2, 1, 3}, e);
}

// As YOLO's: the numbers of [C, H, W] are taken for [C / s^2, H, s, W, s], whose rows and columns
// of s x s blocks become channels, in front of the others.
void map_reorg(layer_mapping& m) {
  auto p = m.fields().message("reorg_param");
  const auto s = p.integer("stride", 2, 1, 1024);
  if (p.flag("reverse", false)) return p.error("reverse", "'reverse' must be false for Troupe");
  const auto e = m.image_extents();
  if (e.empty()) return;
  if (e[0] % (s * s) != 0 || e[1] % s != 0 || e[2] % s != 0)
    return p.error("stride", "'stride' must divide height and width, and its square the channels, of " + toml_text(e));
  move_axes(m, {e[0] / (s * s), e[1], s, e[2], s}, {3, 5, 1, 2, 4}, {e[0] * s * s, e[1] / s, e[2] / s});
}

void map_upsample(layer_mapping& m) {
  m.to.type = "upsample", m.to.image = true;
  auto p = m.fields().message("upsample_param");
  const auto factor = p.integer("scale", 2, 1, 4096);
  for (const auto* side : {"upsample_h", "upsample_w"}) p.integer(side, 0);
  p.ignore({"pad_out_h", "pad_out_w"});
  if (m.from.bottoms.size() != 1) return map_unpool(m, p, factor);
  m.to.set("factor", toml_text(factor));
}

// x / |x| over the channels of a pixel, times a weight for each channel: an lrn over all channels,
// and a scale.
void map_normalize(layer_mapping& m) {
  auto p = m.fields().message("norm_param");
  if (p.flag("across_spatial", true)) p.error("across_spatial", "'across_spatial' must be false for Troupe");
  const auto shared = p.flag("channel_shared", true);
  const auto eps = p.real("eps", 1e-10);
  if (m.channels < 1) return m.from.error("the number of channels of its bottom is not known");
  const auto size = toml_text(2 * m.channels - 1);
  const auto unit = m.insert("_unit", "lrn", {m.to.inputs[0]});
  m.set_of_inserted(
      {{"size", size}, {"alpha", toml_text(static_cast<double>(2 * m.channels - 1))}, {"beta", "0.5"}, {"k", toml_text(eps)}});
  m.to.inputs = {unit};
  m.to.type = "scale", m.to.image = m.image;
  m.filler(p, "scale_filler", "weight_filler");
  if (!shared) return m.parameters({{"weight", {m.channels}}});
  if (!m.with_weights) return m.found.note(m.from.title() + ": its weight is one for each channel in Troupe");
  m.shared_scale();
}

void map_pooling(layer_mapping& m) {
  auto p = m.fields().message("pooling_param");
  m.to.type = p.word("pool", "MAX", {"MAX", "AVE"}) == "AVE" ? "avg_pool" : "max_pool";
  m.to.image = true;
  p.ignore({"engine"});
  const auto global = p.flag("global_pooling", false);
  const auto kernel = read_extents(p, "kernel_size", "kernel_h", "kernel_w", 1, 1);
  const auto stride = read_extents(p, "stride", "stride_h", "stride_w", 1, 1);
  const auto pad = read_extents(p, "pad", "pad_h", "pad_w", 0, 0);
  const auto rounding = p.word("round_mode", "CEIL", {"CEIL", "FLOOR"});
  const auto up = p.flag("ceil_mode", rounding == "CEIL");  // of relatives of Caffe
  if (p.flag("torch_pooling", false)) p.error("torch_pooling", "'torch_pooling' must be false for Troupe");
  if (!p.flag("avg_include_pad", true) && m.to.type == "avg_pool") m.to.set("count_padding", "false");
  if (p.has("ceil_mode") && p.has("round_mode") && up != (rounding == "CEIL"))
    p.error("ceil_mode", "'ceil_mode' and 'round_mode' contradict each other");
  if (global && (kernel.given || !pad.are(0) || !stride.are(1)))
    p.error("global_pooling", "with 'global_pooling' there is no kernel, pad or stride");
  if (!global && !kernel.given) p.error("kernel_size", "'kernel_size' is missing");
  if (m.from.tops.size() > 1) {
    if (m.to.type == "avg_pool") return m.from.error("a second top holds the positions of maxima, which an average has not");
    if (!global && (stride.h < kernel.h || stride.w < kernel.w))
      return m.from.error(
          "with a second top (the positions of the maxima) the windows must not overlap: Troupe's unpool adds what Caffe's "
          "Upsample "
          "would overwrite. Make the stride at least the kernel");
    m.made = pool_mask{m.to.inputs[0], {}, stride.h, stride.w};
  }
  if (global) return;
  m.to.set("kernel", kernel.toml());
  if (!stride.are(1)) m.to.set("stride", stride.toml());
  if (!pad.are(0)) m.to.set("pad", pad.toml());
  if (!up)
    m.to.set("rounding", "\"floor\"");
  else if (stride.h > kernel.h || stride.w > kernel.w)
    m.found.note(m.from.title() +
                 ": the stride is greater than the kernel. A last window that begins behind the image is dropped; "
                 "Caffe would keep it, empty");
  if (m.made) m.made->keys = m.to.keys;
}

void map_lrn(layer_mapping& m) {
  m.to.type = "lrn", m.to.image = m.image;
  auto p = m.fields().message("lrn_param");
  p.ignore({"engine"});
  const auto size = p.integer("local_size", 5, 1);
  const auto within = p.word("norm_region", "ACROSS_CHANNELS", {"ACROSS_CHANNELS", "WITHIN_CHANNEL"}) == "WITHIN_CHANNEL";
  const auto alpha = p.real("alpha", 1), beta = p.real("beta", 0.75), k = p.real("k", 1);
  if (size % 2 == 0) p.error("local_size", "'local_size' must be odd");
  m.to.set("size", toml_text(size));
  m.to.set("alpha", toml_text(alpha));
  m.to.set("beta", toml_text(beta));
  if (within) m.to.set("region", "\"within_channel\"");
  // Caffe does not read k for WITHIN_CHANNEL: its constant is 1.
  if (!within && k != 1) m.to.set("k", toml_text(k));
}

// An axis, which Caffe may count from the end: of an image if it is negative.
std::int64_t read_axis(const layer_mapping& m, message_reader& p, std::int64_t otherwise, std::int64_t old = 1) {
  const auto axis = p.integer("axis", otherwise == 1 ? old : otherwise, -4, 5);
  return axis < 0 && m.image ? axis + 4 : axis;
}

void map_crop(layer_mapping& m) {
  m.to.type = "crop", m.to.image = m.image;
  auto p = m.fields().message("crop_param");
  const auto axis = read_axis(m, p, 2);
  const auto offsets = p.integers("offset");
  if (axis < 1) p.error("axis", "Troupe's crop counts its axis from the front, from 1");
  if (m.from.bottoms.size() != 2) m.from.error("a Crop has two bottoms");
  if (axis != 2) m.to.set("axis", toml_text(axis));
  if (!offsets.empty()) m.to.set("offsets", toml_text(offsets));
}

// --- shapes

void map_flatten(layer_mapping& m) {
  m.to.type = "flatten";
  auto p = m.fields().message("flatten_param");
  p.only("axis", 1);
  p.only("end_axis", -1);
}

void map_permute(layer_mapping& m) {
  m.to.type = "permute", m.to.image = m.image;
  auto p = m.fields().message("permute_param");
  auto order = p.integers("order", 0, 5);
  if (order.empty() || order[0] != 0)
    return p.error("order", "the first axis of 'order' must be 0: the axis of the examples stays as it is");
  order.erase(order.begin());
  m.to.set("order", toml_text(order));
}

// The axes from `axis` on have the extents of `shape`; 0 is the bottom's extent, as in Troupe.
void map_reshape(layer_mapping& m) {
  auto p = m.fields().message("reshape_param");
  const auto axis = p.integer("axis", 0, -10, 10);
  if (axis != 0 && axis != 1) p.error("axis", "'axis' must be 0 or 1 for Troupe");
  p.only("num_axes", -1);
  auto s = p.message("shape");
  auto dims = s.integers("dim", -1);
  if (axis == 0) {
    if (dims.empty() || dims[0] != 0)
      s.error("dim", "the first dim must be 0: the axis of the examples stays as it is");
    else
      dims.erase(dims.begin());
  }
  if (dims.empty() || dims.size() > 5 || std::count(dims.begin(), dims.end(), -1) > 1)
    s.error("dim", "Troupe's reshape has 1 to 5 extents behind the axis of the examples, and at most one -1");
  m.to.image = dims.size() == 3;
  m.to.type = dims == std::vector<std::int64_t>{-1} ? "flatten" : "reshape";
  if (m.to.type == "reshape") m.to.set("shape", toml_text(dims));
}

void map_concat(layer_mapping& m) {
  m.to.type = "concat", m.to.image = m.image;
  auto p = m.fields().message("concat_param");
  p.ignore({"engine"});
  const auto axis = read_axis(m, p, 1, p.integer("concat_dim", 1, 0, 5));
  if (axis < 1) p.error("axis", "Troupe's concat counts its axis from the front, from 1 (0 is the axis of examples)");
  if (axis != 1) m.to.set("axis", toml_text(axis));
}

void map_slice(layer_mapping& m) {
  m.to.type = "slice", m.to.image = m.image;
  auto p = m.fields().message("slice_param");
  const auto axis = read_axis(m, p, 1, p.integer("slice_dim", 1, 0, 5));
  const auto points = p.integers("slice_point", 1);
  if (axis < 1) p.error("axis", "Troupe's slice counts its axis from the front, from 1 (0 is the axis of examples)");
  if (!points.empty() && points.size() + 1 != m.from.tops.size())
    p.error("slice_point", std::to_string(points.size()) + " points give " + std::to_string(points.size() + 1) + " pieces, not " +
                               std::to_string(m.from.tops.size()));
  if (axis != 1) m.to.set("axis", toml_text(axis));
  if (points.empty())
    m.to.set("parts", toml_text(static_cast<std::int64_t>(m.from.tops.size())));
  else
    m.to.set("points", toml_text(points));
}

void map_split(layer_mapping& m) {
  m.to.type = "split", m.to.image = m.image;
  m.to.set("copies", toml_text(static_cast<std::int64_t>(m.from.tops.size())));
}

// --- losses and metrics

// Labels that do not count: in Troupe the negative ones, and the one that [data] names.
void read_ignored(layer_mapping& m, message_reader& p) {
  const auto label = p.integer("ignore_label", -1, -1'000'000);
  if (label >= 0) m.to.ignored = label;
}

// The normalisations that give Troupe's mean; the first is Caffe's default.
void check_normalization(message_reader& p, const std::vector<std::string>& same) {
  const auto flag = p.has("normalize") ? (p.flag("normalize", true) ? "VALID" : "BATCH_SIZE") : same[0];
  const auto how = p.word("normalization", flag, {"FULL", "VALID", "BATCH_SIZE", "NONE"});
  if (std::find(same.begin(), same.end(), how) == same.end())
    p.error(p.has("normalization") ? "normalization" : "normalize",
            "the normalization " + how + " is not supported; Troupe's loss is that of " + joined(same));
}

void map_softmax(layer_mapping& m) {
  m.to.type = "softmax", m.to.image = m.image;
  auto p = m.fields().message("softmax_param");
  p.ignore({"engine"});
  const auto axis = read_axis(m, p, 1);
  if (axis < 1) p.error("axis", "Troupe's softmax counts its axis from the front, from 1 (0 is the axis of examples)");
  if (axis != 1) m.to.set("axis", toml_text(axis));
}

// Axis 1, or the last one: Troupe's losses take scores [N, C] or [N, T, C].
void check_score_axis(message_reader& p) {
  const auto axis = p.integer("axis", 1, -1, 5);
  if (axis != 1 && axis != 2 && axis != -1) p.error("axis", "'axis' must be 1 or the last axis");
}

void map_softmax_loss(layer_mapping& m) {
  m.to.type = "softmax_loss", m.to.part = job_layer::role::loss;
  auto s = m.fields().message("softmax_param");
  s.ignore({"engine"});
  check_score_axis(s);
  auto p = m.fields().message("loss_param");
  read_ignored(m, p);
  check_normalization(p, {"VALID", "FULL", "BATCH_SIZE"});
  const auto weights = p.reals("class_weighting");  // of SegNet
  if (p.flag("weight_by_label_freqs", false) && !weights.empty()) m.to.set("class_weights", toml_text(weights));
}

void map_sigmoid_loss(layer_mapping& m) {
  m.to.type = "sigmoid_cross_entropy", m.to.part = job_layer::role::loss;
  auto p = m.fields().message("loss_param");
  if (p.has("ignore_label"))
    p.error("ignore_label",
            "every target counts in Troupe's sigmoid_cross_entropy: remove 'ignore_label' if your data has no such targets");
  check_normalization(p, {"BATCH_SIZE"});
}

void map_euclidean(layer_mapping& m) { m.to.type = "euclidean", m.to.part = job_layer::role::loss; }

void map_hinge(layer_mapping& m) {
  m.to.type = "hinge", m.to.part = job_layer::role::loss;
  if (m.fields().message("hinge_loss_param").word("norm", "L1", {"L1", "L2"}) == "L2") m.to.set("norm", "\"l2\"");
}

void map_accuracy(layer_mapping& m) {
  m.to.type = "accuracy", m.to.part = job_layer::role::metric;
  auto p = m.fields().message("accuracy_param");
  const auto top = p.integer("top_k", 1, 1);
  check_score_axis(p);
  read_ignored(m, p);
  if (m.from.tops.size() > 1) m.found.note(m.from.title() + ": its second top, the accuracies by class, is left out");
  if (top != 1) m.to.set("top_k", toml_text(top));
}

}  // namespace

layer_rule rule_of(const std::string& type) {
  static const std::map<std::string, layer_rule> rules{{"Accuracy", map_accuracy},
                                                       {"Axpy", map_axpy},
                                                       {"BN", map_bn},
                                                       {"BatchNorm", map_batch_norm},
                                                       {"Bias", map_bias},
                                                       {"Concat", map_concat},
                                                       {"Convolution", map_convolution},
                                                       {"ConvolutionDepthwise", map_depthwise},
                                                       {"Crop", map_crop},
                                                       {"Deconvolution", map_deconvolution},
                                                       {"DepthwiseConvolution", map_convolution},
                                                       {"Dropout", map_dropout},
                                                       {"ELU", map_elu},
                                                       {"Eltwise", map_eltwise},
                                                       {"Embed", map_embed},
                                                       {"EuclideanLoss", map_euclidean},
                                                       {"Flatten", map_flatten},
                                                       {"HingeLoss", map_hinge},
                                                       {"InnerProduct", map_inner_product},
                                                       {"Interp", map_interp},
                                                       {"LRN", map_lrn},
                                                       {"Normalize", map_normalize},
                                                       {"PReLU", map_prelu},
                                                       {"Permute", map_permute},
                                                       {"Pooling", map_pooling},
                                                       {"Power", map_power},
                                                       {"ReLU", map_relu},
                                                       {"ReLU6", map_relu6},
                                                       {"Reorg", map_reorg},
                                                       {"Reshape", map_reshape},
                                                       {"Scale", map_scale},
                                                       {"SELU", map_selu},
                                                       {"SeLu", map_selu},
                                                       {"ShuffleChannel", map_shuffle},
                                                       {"Sigmoid", map_sigmoid},
                                                       {"SigmoidCrossEntropyLoss", map_sigmoid_loss},
                                                       {"Slice", map_slice},
                                                       {"Softmax", map_softmax},
                                                       {"SoftmaxWithLoss", map_softmax_loss},
                                                       {"Split", map_split},
                                                       {"Swish", map_swish},
                                                       {"TanH", map_tanh},
                                                       {"Upsample", map_upsample}};
  const auto found = rules.find(type);
  return found == rules.end() ? nullptr : found->second;
}

bool is_data_layer(const net_layer& l) {
  static const std::set<std::string> types{"AnnotatedData", "Data",  "DenseImageData", "DummyData", "HDF5Data",  "ImageData",
                                           "ImageSegData",  "Input", "MemoryData",     "VideoData", "WindowData"};
  return types.contains(l.type) || (l.type == "Python" && l.bottoms.empty());
}

}  // namespace troupe::caffe
