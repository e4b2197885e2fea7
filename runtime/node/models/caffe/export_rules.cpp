#include "runtime/node/models/caffe/export_rules.hpp"

#include <algorithm>

#include "ops/filler.hpp"
#include "ops/window_options.hpp"
#include "runtime/base/number_text.hpp"
#include "runtime/base/wording.hpp"

namespace troupe::caffe {
namespace {

using field_list = std::vector<proto_field>;

proto_field plain_field(const std::string& name, proto_field::kind what, std::string text) {
  proto_field f;
  f.name = name, f.what = what, f.text = std::move(text);
  return f;
}

// --- with weights

// One field `both`, or the fields `h` and `w`.
void put_by_axis(field_list& p, const std::string& both, const std::string& h, const std::string& w, const by_axes& v) {
  if (v[0] == v[1]) return p.push_back(integer_field(both, v[0]));
  p.push_back(integer_field(h, v[0]));
  p.push_back(integer_field(w, v[1]));
}

void put_window(const options& o, field_list& p) {
  put_by_axis(p, "kernel_size", "kernel_h", "kernel_w", kernel_of(o));
  if (const auto stride = o.by_axis("stride"); stride != by_axes{1, 1}) put_by_axis(p, "stride", "stride_h", "stride_w", stride);
}

void check_images(layer_export& e) {
  if (e.layer.in[0].rank() != 4) e.refuse("only images [N, C, H, W] are exported to Caffe");
}

void put_convolution(layer_export& e) {
  const auto& o = e.values;
  check_images(e);
  field_list p{integer_field("num_output", o.integer("outputs"))};
  const bool bias = o.flag("bias");
  if (!bias) p.push_back(word_field("bias_term", "false"));
  if (e.pad) {
    const auto& sides = e.pad->spec->values;
    const auto side = [&](const char* name) { return sides.integer(name) < 0 ? sides.integer("pad") : sides.integer(name); };
    p.push_back(integer_field("pad_h", side("top")));
    p.push_back(integer_field("pad_w", side("left")));
  } else if (const auto pad = o.by_axis("pad"); pad != by_axes{0, 0}) {
    put_by_axis(p, "pad", "pad_h", "pad_w", pad);
  }
  put_window(o, p);
  if (o.integer("groups") != 1) p.push_back(integer_field("group", o.integer("groups")));
  e.add_filler(p, "weight_filler", 0);
  if (bias) e.add_filler(p, "bias_filler", 1);
  if (const auto dilation = o.by_axis("dilation"); dilation != by_axes{1, 1})
    put_by_axis(p, "dilation", "dilation", "dilation", dilation);
  e.own.push_back(message_field("convolution_param", std::move(p)));
  e.params = bias ? 2 : 1;
}

void export_convolution(layer_export& e) {
  e.type = "Convolution";
  put_convolution(e);
}
void export_deconvolution(layer_export& e) {
  e.type = "Deconvolution";
  if (e.values.by_axis("output_pad") != by_axes{0, 0}) e.refuse("Caffe has no output_pad");
  put_convolution(e);
}

void export_linear(layer_export& e) {
  e.type = "InnerProduct";
  const bool bias = e.values.flag("bias");
  field_list p{integer_field("num_output", e.values.integer("outputs"))};
  if (!bias) p.push_back(word_field("bias_term", "false"));
  e.add_filler(p, "weight_filler", 0);
  if (bias) e.add_filler(p, "bias_filler", 1);
  if (e.values.integer("axis") != 1) p.push_back(integer_field("axis", e.values.integer("axis")));
  e.own.push_back(message_field("inner_product_param", std::move(p)));
  e.params = bias ? 2 : 1;
}

void export_embedding(layer_export& e) {
  e.type = "Embed";
  field_list p{integer_field("num_output", e.values.integer("outputs")), integer_field("input_dim", e.values.integer("vocabulary")),
               word_field("bias_term", "false")};
  e.add_filler(p, "weight_filler", 0);
  e.own.push_back(message_field("embed_param", std::move(p)));
  e.params = 1;
}

void export_scale(layer_export& e) {
  e.type = "Scale";
  const bool bias = e.values.flag("bias");
  field_list p;
  e.add_filler(p, "filler", 0);
  if (bias) p.push_back(word_field("bias_term", "true"));
  if (bias) e.add_filler(p, "bias_filler", 1);
  e.own.push_back(message_field("scale_param", std::move(p)));
  e.params = bias ? 2 : 1;
}

void export_bias(layer_export& e) {
  e.type = "Bias";
  field_list p;
  e.add_filler(p, "filler", 0);
  e.own.push_back(message_field("bias_param", std::move(p)));
  e.params = 1;
}

void export_prelu(layer_export& e) {
  e.type = "PReLU";
  field_list p;
  e.add_filler(p, "filler", 0);
  if (e.values.flag("shared")) p.push_back(word_field("channel_shared", "true"));
  e.own.push_back(message_field("prelu_param", std::move(p)));
  e.params = 1;
}

// Its statistics and factor, and the layer Scale of an affine one, are written by export_net.cpp.
void export_batch_norm(layer_export& e) {
  e.type = "BatchNorm";
  if (e.values.text("stats") != "packet")
    e.found.note("layer " + in_quotes(e.layer.name) + ": Caffe's BatchNorm has the statistics of each packet, not of the batch");
  // The decimals of momentum, without the error of the subtraction.
  const auto fraction = number_text(static_cast<float>(1 - e.values.real("momentum")));
  e.own.push_back(message_field("batch_norm_param", {plain_field("moving_average_fraction", proto_field::kind::number, fraction),
                                                     real_field("eps", e.values.real("epsilon"))}));
}

// --- images

void export_pooling(layer_export& e) {
  const auto& o = e.values;
  e.type = "Pooling";
  const bool average = e.layer.type == "avg_pool";
  field_list p{word_field("pool", average ? "AVE" : "MAX")};
  check_images(e);
  const auto pad = o.by_axis("pad");
  if (average && pad != by_axes{0, 0} && !o.flag("count_padding"))
    e.refuse("Caffe's average counts padding in the divisor (count_padding = false)");
  if (kernel_of(o)[0] == 0) {
    p.push_back(word_field("global_pooling", "true"));
  } else {
    put_window(o, p);
    if (pad != by_axes{0, 0}) put_by_axis(p, "pad", "pad_h", "pad_w", pad);
    if (o.text("rounding") == "floor") p.push_back(word_field("round_mode", "FLOOR"));
  }
  e.own.push_back(message_field("pooling_param", std::move(p)));
}

void export_lrn(layer_export& e) {
  const auto& o = e.values;
  e.type = "LRN";
  field_list p{integer_field("local_size", o.integer("size")), real_field("alpha", o.real("alpha")),
               real_field("beta", o.real("beta"))};
  const bool within = o.text("region") == "within_channel";
  if (within) p.push_back(word_field("norm_region", "WITHIN_CHANNEL"));
  if (within && o.real("k") != 1) e.refuse("Caffe's LRN within a channel has k = 1, not " + number_text(o.real("k")));
  if (!within && o.real("k") != 1) p.push_back(real_field("k", o.real("k")));
  e.own.push_back(message_field("lrn_param", std::move(p)));
}

void export_crop(layer_export& e) {
  e.type = "Crop";
  if (e.layer.inputs.size() != 2) e.refuse("Caffe's Crop has the extents of a second input, not a size");
  field_list p{integer_field("axis", e.values.integer("axis"))};
  for (const auto v : e.values.get<std::vector<std::int64_t>>("offsets")) p.push_back(integer_field("offset", v));
  e.own.push_back(message_field("crop_param", std::move(p)));
}

// --- element by element, and shapes

void export_relu(layer_export& e) {
  e.type = "ReLU";
  if (const auto slope = e.values.real("slope"); slope != 0)
    e.own.push_back(message_field("relu_param", {real_field("negative_slope", slope)}));
}
void export_elu(layer_export& e) {
  e.type = "ELU";
  e.own.push_back(message_field("elu_param", {real_field("alpha", e.values.real("alpha"))}));
}
void export_sigmoid(layer_export& e) { e.type = "Sigmoid"; }
void export_tanh(layer_export& e) { e.type = "TanH"; }
void export_dropout(layer_export& e) {
  e.type = "Dropout";
  e.own.push_back(message_field("dropout_param", {real_field("dropout_ratio", e.values.real("ratio"))}));
}
void export_softmax(layer_export& e) {
  e.type = "Softmax";
  if (e.values.flag("causal")) e.refuse("Caffe has no softmax with masked columns (causal = true)");
  if (const auto axis = e.values.integer("axis"); axis != 1)
    e.own.push_back(message_field("softmax_param", {integer_field("axis", axis)}));
}
void export_flatten(layer_export& e) { e.type = "Flatten"; }
void export_reshape(layer_export& e) {
  e.type = "Reshape";
  field_list dims{integer_field("dim", 0)};  // 0: that of the bottom, here the batch
  for (const auto v : e.values.get<std::vector<std::int64_t>>("shape")) dims.push_back(integer_field("dim", v));
  e.own.push_back(message_field("reshape_param", {message_field("shape", std::move(dims))}));
}
void export_split(layer_export& e) { e.type = "Split"; }

void export_eltwise(layer_export& e) {
  e.type = "Eltwise";
  const auto& operation = e.values.text("operation");
  field_list p{word_field("operation", operation == "sum" ? "SUM" : operation == "prod" ? "PROD" : "MAX")};
  for (const auto v : e.values.get<std::vector<double>>("coeffs")) p.push_back(real_field("coeff", v));
  e.own.push_back(message_field("eltwise_param", std::move(p)));
}
void export_concat(layer_export& e) {
  e.type = "Concat";
  if (const auto axis = e.values.integer("axis"); axis != 1)
    e.own.push_back(message_field("concat_param", {integer_field("axis", axis)}));
}
void export_slice(layer_export& e) {
  e.type = "Slice";
  field_list p;
  for (const auto v : e.values.get<std::vector<std::int64_t>>("points")) p.push_back(integer_field("slice_point", v));
  if (const auto axis = e.values.integer("axis"); axis != 1) p.push_back(integer_field("axis", axis));
  e.own.push_back(message_field("slice_param", std::move(p)));
}

// --- losses and metrics

// Scores [N, T, C] have the classes on axis 2.
bool sequence(const layer_export& e) { return e.layer.in[0].rank() == 3; }

void export_softmax_loss(layer_export& e) {
  e.type = "SoftmaxWithLoss";
  if (e.values.real("label_smoothing") != 0) e.refuse("Caffe has no label_smoothing");
  if (!e.values.get<std::vector<double>>("class_weights").empty()) e.refuse("Caffe's SoftmaxWithLoss has no class_weights");
  if (sequence(e)) e.own.push_back(message_field("softmax_param", {integer_field("axis", 2)}));
  e.own.push_back(message_field("loss_param", {integer_field("ignore_label", e.ignored)}));
}
void export_sigmoid_loss(layer_export& e) {
  e.type = "SigmoidCrossEntropyLoss";
  if (e.layer.in[0].count() != e.layer.in[1].count()) e.refuse("Caffe's loss takes a target for each score, not class labels");
}
void export_euclidean(layer_export& e) { e.type = "EuclideanLoss"; }
void export_hinge(layer_export& e) {
  e.type = "HingeLoss";
  if (e.values.text("norm") == "l2") e.own.push_back(message_field("hinge_loss_param", {word_field("norm", "L2")}));
}
void export_accuracy(layer_export& e) {
  e.type = "Accuracy";
  field_list p;
  if (const auto top = e.values.integer("top_k"); top != 1) p.push_back(integer_field("top_k", top));
  if (sequence(e)) p.push_back(integer_field("axis", 2));
  p.push_back(integer_field("ignore_label", e.ignored));
  e.own.push_back(message_field("accuracy_param", std::move(p)));
}

}  // namespace

proto_field text_field(const std::string& name, const std::string& value) {
  return plain_field(name, proto_field::kind::text, value);
}
proto_field word_field(const std::string& name, const std::string& value) {
  return plain_field(name, proto_field::kind::word, value);
}
proto_field integer_field(const std::string& name, std::int64_t value) {
  return plain_field(name, proto_field::kind::number, number_text(value));
}
proto_field real_field(const std::string& name, double value) {
  return plain_field(name, proto_field::kind::number, number_text(value));
}
proto_field message_field(const std::string& name, std::vector<proto_field> fields) {
  auto f = plain_field(name, proto_field::kind::message, {});
  f.fields = std::move(fields);
  return f;
}

void layer_export::refuse(const std::string& why) {
  diagnostic d;
  if (layer.spec) d.at = layer.spec->at;
  d.message = "layer " + in_quotes(layer.name) + " (" + layer.type + "): " + why;
  found.wrong.push_back(std::move(d));
}

void layer_export::add_filler(std::vector<proto_field>& to, const std::string& field, std::size_t k) const {
  const auto& f = param(k).spec.filler;
  const auto v = check_options(f.values, filler_options(f.kind));
  field_list p{text_field("type", f.kind)};
  for (const auto* key : {"value", "min", "max", "mean", "std"})
    if (v.has(key)) p.push_back(real_field(key, v.real(key)));
  if (v.has("norm") && v.text("norm") != "fan_in")
    p.push_back(word_field("variance_norm", v.text("norm") == "fan_out" ? "FAN_OUT" : "AVERAGE"));
  to.push_back(message_field(field, std::move(p)));
}

export_rule export_rule_of(const std::string& type) {
  static const std::map<std::string, export_rule> rules{{"accuracy", export_accuracy},
                                                        {"avg_pool", export_pooling},
                                                        {"batch_norm", export_batch_norm},
                                                        {"bias", export_bias},
                                                        {"concat", export_concat},
                                                        {"convolution", export_convolution},
                                                        {"crop", export_crop},
                                                        {"deconvolution", export_deconvolution},
                                                        {"dropout", export_dropout},
                                                        {"eltwise", export_eltwise},
                                                        {"elu", export_elu},
                                                        {"embedding", export_embedding},
                                                        {"euclidean", export_euclidean},
                                                        {"flatten", export_flatten},
                                                        {"hinge", export_hinge},
                                                        {"linear", export_linear},
                                                        {"lrn", export_lrn},
                                                        {"max_pool", export_pooling},
                                                        {"prelu", export_prelu},
                                                        {"relu", export_relu},
                                                        {"reshape", export_reshape},
                                                        {"scale", export_scale},
                                                        {"sigmoid", export_sigmoid},
                                                        {"sigmoid_cross_entropy", export_sigmoid_loss},
                                                        {"slice", export_slice},
                                                        {"softmax", export_softmax},
                                                        {"softmax_loss", export_softmax_loss},
                                                        {"split", export_split},
                                                        {"tanh", export_tanh}};
  const auto found = rules.find(type);
  return found == rules.end() ? nullptr : found->second;
}

const graph_layer* pad_of(const model_graph& g, const graph_layer& l) {
  if (l.type != "convolution" || l.inputs.empty() || l.inputs[0].layer < 0) return nullptr;
  const auto& p = g.layers[static_cast<std::size_t>(l.inputs[0].layer)];
  if (p.type != "pad" || g.consumers({l.inputs[0].layer, 0}).size() != 1 || l.spec->values.by_axis("pad") != by_axes{0, 0})
    return nullptr;
  const auto& o = p.spec->values;
  const auto side = [&](const char* name) { return o.integer(name) < 0 ? o.integer("pad") : o.integer(name); };
  const bool even = side("top") == side("bottom") && side("left") == side("right");
  return even && o.text("mode") == "zero" ? &p : nullptr;
}

}  // namespace troupe::caffe
