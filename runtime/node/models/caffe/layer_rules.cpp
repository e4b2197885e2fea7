// Rules of the layers without weights, and the table of all rules.
#include "runtime/node/models/caffe/layer_rules.hpp"

#include <algorithm>
#include <map>

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

// --- images

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
  if (m.from.tops.size() > 1) m.from.error("a second top (the positions of the maxima) is not supported");
  if (global && (kernel.given || !pad.are(0) || !stride.are(1)))
    p.error("global_pooling", "with 'global_pooling' there is no kernel, pad or stride");
  if (!global && !kernel.given) p.error("kernel_size", "'kernel_size' is missing");
  if (global) return;
  m.to.set("kernel", kernel.toml());
  if (!stride.are(1)) m.to.set("stride", stride.toml());
  if (!pad.are(0)) m.to.set("pad", pad.toml());
  if (rounding == "FLOOR")
    m.to.set("rounding", "\"floor\"");
  else if (stride.h > kernel.h || stride.w > kernel.w)
    m.found.note(m.from.title() +
                 ": the stride is greater than the kernel. A last window that begins behind the image is dropped; "
                 "Caffe would keep it, empty");
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

void map_crop(layer_mapping& m) {
  m.to.type = "crop", m.to.image = m.image;
  auto p = m.fields().message("crop_param");
  const auto axis = p.integer("axis", 2, -4, 5);
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
  const auto axis = p.integer("axis", p.integer("concat_dim", 1, 0, 5), -4, 5);
  if (axis < 1) p.error("axis", "Troupe's concat counts its axis from the front, from 1 (0 is the axis of examples)");
  if (axis != 1) m.to.set("axis", toml_text(axis));
}

void map_slice(layer_mapping& m) {
  m.to.type = "slice", m.to.image = m.image;
  auto p = m.fields().message("slice_param");
  const auto axis = p.integer("axis", p.integer("slice_dim", 1, 0, 5), -4, 5);
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

// Labels that do not count: in Troupe the negative ones.
void check_ignored(message_reader& p) {
  if (!p.has("ignore_label")) return;
  const auto label = p.integer("ignore_label", -1, -1'000'000);
  if (label >= 0)
    p.error("ignore_label", "labels that Troupe ignores are negative: store them as -1, not " + std::to_string(label));
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
  const auto axis = p.integer("axis", 1, -4, 5);
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
  check_ignored(p);
  check_normalization(p, {"VALID", "FULL", "BATCH_SIZE"});
}

void map_sigmoid_loss(layer_mapping& m) {
  m.to.type = "sigmoid_cross_entropy", m.to.part = job_layer::role::loss;
  auto p = m.fields().message("loss_param");
  check_ignored(p);
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
  check_ignored(p);
  if (m.from.tops.size() > 1) m.from.error("a second top (accuracies by class) is not supported");
  if (top != 1) m.to.set("top_k", toml_text(top));
}

}  // namespace

layer_rule rule_of(const std::string& type) {
  static const std::map<std::string, layer_rule> rules{{"Accuracy", map_accuracy},
                                                       {"BatchNorm", map_batch_norm},
                                                       {"Bias", map_bias},
                                                       {"Concat", map_concat},
                                                       {"Convolution", map_convolution},
                                                       {"Crop", map_crop},
                                                       {"Deconvolution", map_deconvolution},
                                                       {"Dropout", map_dropout},
                                                       {"ELU", map_elu},
                                                       {"Eltwise", map_eltwise},
                                                       {"Embed", map_embed},
                                                       {"EuclideanLoss", map_euclidean},
                                                       {"Flatten", map_flatten},
                                                       {"HingeLoss", map_hinge},
                                                       {"InnerProduct", map_inner_product},
                                                       {"LRN", map_lrn},
                                                       {"PReLU", map_prelu},
                                                       {"Pooling", map_pooling},
                                                       {"ReLU", map_relu},
                                                       {"Reshape", map_reshape},
                                                       {"Scale", map_scale},
                                                       {"Sigmoid", map_sigmoid},
                                                       {"SigmoidCrossEntropyLoss", map_sigmoid_loss},
                                                       {"Slice", map_slice},
                                                       {"Softmax", map_softmax},
                                                       {"SoftmaxWithLoss", map_softmax_loss},
                                                       {"Split", map_split},
                                                       {"TanH", map_tanh}};
  const auto found = rules.find(type);
  return found == rules.end() ? nullptr : found->second;
}

bool is_data_layer(const std::string& type) {
  static const std::vector<std::string> types{"Data", "Input", "ImageData", "HDF5Data", "DummyData", "MemoryData", "WindowData"};
  return std::find(types.begin(), types.end(), type) != types.end();
}

}  // namespace troupe::caffe
