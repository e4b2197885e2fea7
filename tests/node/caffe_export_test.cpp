// Jobs as nets of Caffe, and back: the same graph and the same bits of every weight, also of random
// jobs; the layers that Caffe lacks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "ops/filler.hpp"
#include "runtime/node/models/caffe/export_net.hpp"
#include "runtime/node/models/caffe/prototxt.hpp"
#include "tests/environment.hpp"
#include "tests/node/caffe_net_text.hpp"
#include "tests/node/caffe_random_jobs.hpp"

namespace troupe::caffe {
namespace {

using namespace nets;
using testing::HasSubstr;
using testing::Not;

// Any bits, also NaN and denormals; statistics are finite.
named_tensors random_weights(const model_graph& g, std::uint64_t seed) {
  std::mt19937 bits(static_cast<std::mt19937::result_type>(seed));
  named_tensors all;
  for (const auto& p : g.params) {
    auto values = std::make_shared<std::vector<float>>(static_cast<std::size_t>(p.spec.dims.count()));
    for (auto& v : *values) {
      const auto word = static_cast<std::uint32_t>(bits());
      std::memcpy(&v, &word, sizeof v);
    }
    const auto* data = values->data();
    all.emplace_back(p.full_name, tensor::adopt(std::move(values), data, p.spec.dims, dtype::f32));
  }
  return all;
}

std::string differences(const named_tensors& a, const named_tensors& b) {
  if (a.size() != b.size()) return std::to_string(a.size()) + " and " + std::to_string(b.size()) + " tensors";
  for (std::size_t k = 0; k < a.size(); ++k) {
    if (a[k].first != b[k].first) return a[k].first + " and " + b[k].first;
    if (!(a[k].second.dims() == b[k].second.dims()))
      return a[k].first + ": " + a[k].second.dims().to_string() + " and " + b[k].second.dims().to_string();
    if (std::memcmp(a[k].second.raw(), b[k].second.raw(), a[k].second.bytes()) != 0) return a[k].first + " differs in its bits";
  }
  return {};
}

std::string text_of_filler(const filler_spec& f) {
  return f.kind + " " + toml_text(check_options(f.values, filler_options(f.kind)));
}

// A graph as text: all that a file of Caffe says of it.
std::string outline_of(const model_graph& g) {
  std::string s = "data " + g.data.to_string() + " classes " + std::to_string(g.classes) + "\n";
  for (const auto& l : g.layers) {
    s += l.name + " " + l.type;
    for (const auto& r : l.inputs) s += " " + std::to_string(r.layer) + "." + std::to_string(r.output);
    for (const auto& d : l.out) s += " " + d.to_string();
    s += std::string(l.in_train ? " train" : "") + (l.in_test ? " test" : "") + " weight " + std::to_string(l.loss_weight);
    for (const auto& [key, value] : l.spec->values.values)
      if (!key.ends_with("filler")) s += " " + key + "=" + toml_text(value);
    for (const auto k : l.params) {
      const auto& p = g.params[k];
      s += "\n  " + p.full_name + " " + p.spec.dims.to_string() + " lr " + std::to_string(p.spec.lr_multiplier) + " decay " +
           std::to_string(p.spec.decay_multiplier) + " momentum " + std::to_string(p.spec.momentum) + " " +
           text_of_filler(p.spec.filler);
    }
    s += "\n";
  }
  return s;
}

exported_model exported(const prepared_job& j, const named_tensors& weights, const name_pairs& names = {}) {
  auto made = export_net(j, weights, names);
  EXPECT_EQ(test::error_text(made), "");
  return made ? *std::move(made) : exported_model{{{".prototxt", ""}, {".caffemodel", ""}}, {}};
}

TEST(caffe_export, gives_the_same_graph_and_weights_of_random_jobs) {
  const auto seeds = from_environment("TROUPE_CAFFE_NETS", 300);
  std::map<std::string, int> types;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto text = random_job(seed, *all_tables()).text();
    const auto before = prepared(text);
    ASSERT_TRUE(before) << text;
    const auto weights = random_weights(before->graph, seed);
    const auto files = exported(*before, weights);
    for (const auto& l : before->graph.layers) ++types[l.type];
    const named_text net{"n.prototxt", files.files[0].bytes}, model{"n.caffemodel", files.files[1].bytes};
    const auto both = imported({net, model}), alone = imported({model});
    const auto after = prepared(both.job);
    ASSERT_TRUE(after) << text << files.files[0].bytes;
    ASSERT_EQ(outline_of(after->graph), outline_of(before->graph)) << text << files.files[0].bytes;
    ASSERT_EQ(differences(both.weights, weights), "") << files.files[0].bytes;
    ASSERT_EQ(alone.job, both.job) << "the .caffemodel has the net, too";
    ASSERT_EQ(differences(alone.weights, weights), "");
    const auto again = exported(*after, both.weights);
    ASSERT_EQ(again.files[0].bytes, files.files[0].bytes);
    ASSERT_EQ(again.files[1].bytes, files.files[1].bytes);
  }
  if (seeds < 300) return;
  for (const auto* type :
       {"convolution", "deconvolution", "linear",  "max_pool", "avg_pool",     "relu",    "prelu",    "elu",       "sigmoid",
        "tanh",        "lrn",           "dropout", "softmax",  "concat",       "eltwise", "split",    "slice",     "flatten",
        "crop",        "batch_norm",    "scale",   "bias",     "softmax_loss", "hinge",   "accuracy", "euclidean", "reshape"})
    EXPECT_GE(types[type], 5) << type;
}

// The blobs of the layers as V1LayerParameter (name 4, blobs 6), each with four extents.
std::string layers_of_the_first_version(const binary_net& n) {
  const auto varint = [](std::uint64_t v) {
    std::string s;
    for (; v >= 128; v >>= 7) s += static_cast<char>(v | 128);
    return s + static_cast<char>(v);
  };
  const auto bytes = [&](std::uint64_t field, const std::string& v) { return varint(field << 3 | 2) + varint(v.size()) + v; };
  std::string out;
  for (const auto& l : n.net.fields) {
    if (l.fields.empty()) continue;
    std::string layer = bytes(4, l.fields[0].text);
    for (const auto& f : l.fields) {
      if (f.what != proto_field::kind::blob) continue;
      const auto& b = n.blob_of(f);
      std::string old_blob;
      for (std::uint64_t k = 0; k < 4; ++k) {
        const auto lacking = 4 - b.dims.size();
        old_blob += varint((k + 1) << 3) + varint(k < lacking ? 1 : static_cast<std::uint64_t>(b.dims[k - lacking]));
      }
      old_blob += bytes(5, {reinterpret_cast<const char*>(b.values->data()), b.values->size() * 4});
      layer += bytes(6, old_blob);
    }
    out += bytes(2, layer);
  }
  return out;
}

// A .caffemodel as Caffe writes it: layers with in-place tops and split layers of its own.
std::string model_of_caffe(bool old, std::vector<blob>& blobs) {
  std::mt19937 bits(5);
  binary_net n;
  auto tree = parse_prototxt(R"(
name: "c"
layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "db" batch_size: 8 backend: LMDB } }
layer { name: "label_data_1_split" type: "Split" bottom: "label" top: "label_data_1_split_0" top: "label_data_1_split_1" }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param { num_output: 4 kernel_size: 3 group: 1 } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "conv_relu_0_split" type: "Split" bottom: "conv" top: "conv_relu_0_split_0" top: "conv_relu_0_split_1" }
layer { name: "cat" type: "Concat" bottom: "conv_relu_0_split_0" bottom: "conv_relu_0_split_1" top: "cat" }
layer { name: "bn" type: "BatchNorm" bottom: "cat" top: "cat" }
layer { name: "fc" type: "InnerProduct" bottom: "cat" top: "fc" inner_product_param { num_output: 10 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "fc" bottom: "label_data_1_split_0" top: "loss" }
layer { name: "acc" type: "Accuracy" bottom: "fc" bottom: "label_data_1_split_1" top: "acc" include { phase: TEST } }
)",
                             "");
  EXPECT_TRUE(tree);
  n.net = *tree;
  const std::map<std::string, std::vector<std::vector<std::int64_t>>> shapes{
      {"conv", {{4, 3, 3, 3}, {4}}}, {"bn", {{8}, {8}, {1}}}, {"fc", {{10, 32}, {10}}}};
  for (auto& l : n.net.fields) {
    if (l.fields.empty()) continue;
    const auto found = shapes.find(l.fields[0].text);
    if (found == shapes.end()) continue;
    for (const auto& s : found->second) {
      blob b;
      b.dims = s;
      std::int64_t count = 1;
      for (const auto d : s) count *= d;
      auto values = std::make_shared<std::vector<float>>(static_cast<std::size_t>(count));
      for (auto& v : *values) v = s.size() == 1 && s[0] == 1 ? 1.0F : static_cast<float>(bits()) / 1e9F;
      b.values = std::move(values);
      proto_field f;
      f.name = "blobs", f.what = proto_field::kind::blob, f.text = std::to_string(n.blobs.size());
      l.fields.push_back(f);
      n.blobs.push_back(b);
    }
  }
  blobs = n.blobs;
  return old ? layers_of_the_first_version(n) : *binary_of(n);
}

TEST(caffe_export, keeps_the_bits_of_every_blob_of_a_caffemodel) {
  std::vector<blob> blobs;
  const auto current = model_of_caffe(false, blobs);
  const auto net = prototxt_of(parse_binary_net(current.data(), current.size())->net);
  for (const bool old : {false, true}) {
    SCOPED_TRACE(old ? "old form" : "new form");
    const auto bytes = model_of_caffe(old, blobs);
    const auto m = imported({{"n.prototxt", net}, {"n.caffemodel", bytes}});
    auto text = m.job;  // the database is not here
    const auto from = text.find("source = "), to = text.find("batch = ");
    text.replace(from, to - from, "source = \"synthetic\"\nshape = [3, 4, 4]\n");
    const auto j = prepared(text);
    ASSERT_TRUE(j) << text;
    const auto files = exported(*j, m.weights);
    const auto again = parse_binary_net(files.files[1].bytes.data(), files.files[1].bytes.size());
    ASSERT_TRUE(again);
    ASSERT_EQ(again->blobs.size(), blobs.size());
    for (std::size_t k = 0; k < blobs.size(); ++k) {
      EXPECT_EQ(again->blobs[k].dims, blobs[k].dims);
      EXPECT_EQ(std::memcmp(again->blobs[k].values->data(), blobs[k].values->data(), blobs[k].values->size() * 4), 0) << k;
    }
  }
}

std::string job_with(const std::string& layers, const std::string& shape_text = "[2, 6, 6]") {
  return "[job]\nname = \"j\"\n[data]\nsource = \"synthetic\"\nshape = " + shape_text + "\nbatch = 4\n" + layers +
         "[[layer]]\nname = \"fc\"\ntype = \"linear\"\ninputs = [\"x\"]\noutputs = 10\n"
         "[[layer]]\nname = \"loss\"\ntype = \"softmax_loss\"\ninputs = [\"fc\", \"label\"]\n[train.dynamics]\nrule = "
         "\"sgd\"\n[train.finish]\nsteps = 1\n";
}
std::string layer_table(const std::string& name, const std::string& type, const std::string& input, const std::string& keys = {}) {
  return "[[layer]]\nname = \"" + name + "\"\ntype = \"" + type + "\"\ninputs = [\"" + input + "\"]\n" + keys;
}
std::string why_not(const std::string& layers, const std::string& shape_text = "[2, 6, 6]") {
  const auto j = prepared(job_with(layers, shape_text));
  return j ? test::error_text(export_net(*j, random_weights(j->graph, 1), {})) : "not prepared";
}

// size: the whole text of a net
TEST(caffe_export, writes_a_net_for_deployment_with_its_loss) {
  const auto j = prepared(job_with(layer_table("x", "batch_norm", "data", "lr_scale = [2, 3, 1, 1]\n")));
  ASSERT_TRUE(j);
  const auto files = exported(*j, random_weights(j->graph, 1), {{"norm/1", "x"}});
  EXPECT_EQ(files.files[0].bytes, R"(name: "j"
layer {
  name: "data"
  type: "Input"
  top: "data"
  top: "label"
  input_param {
    shape {
      dim: 4
      dim: 2
      dim: 6
      dim: 6
    }
    shape {
      dim: 4
    }
  }
}
layer {
  name: "norm/1"
  type: "BatchNorm"
  bottom: "data"
  top: "norm/1"
  param {
    lr_mult: 0
    decay_mult: 0
  }
  param {
    lr_mult: 0
    decay_mult: 0
  }
  param {
    lr_mult: 0
    decay_mult: 0
  }
  batch_norm_param {
    moving_average_fraction: 0.9
    eps: 1e-05
  }
}
layer {
  name: "norm/1_scale"
  type: "Scale"
  bottom: "norm/1"
  top: "norm/1_scale"
  param {
    lr_mult: 2
    decay_mult: 1
  }
  param {
    lr_mult: 3
    decay_mult: 1
  }
  scale_param {
    bias_term: true
  }
}
layer {
  name: "fc"
  type: "InnerProduct"
  bottom: "norm/1_scale"
  top: "fc"
  inner_product_param {
    num_output: 10
    weight_filler {
      type: "xavier"
    }
    bias_filler {
      type: "constant"
      value: 0
    }
  }
}
layer {
  name: "loss"
  type: "SoftmaxWithLoss"
  bottom: "fc"
  bottom: "label"
  top: "loss"
  loss_param {
    ignore_label: -1
  }
}
)");
}

TEST(caffe_export, has_windows_that_differ_by_axis_and_a_border_of_zeros_in_them) {
  const auto text =
      job_with(layer_table("c_pad", "pad", "data", "top = 0\nbottom = 0\nleft = 3\nright = 3\n") +
               layer_table("c", "convolution", "c_pad", "outputs = 2\nkernel = [1, 7]\nstride = [2, 1]\ndilation = [2, 1]\n") +
               layer_table("x", "max_pool", "c", "kernel = [1, 2]\nstride = [1, 2]\npad = [0, 1]\n"));
  const auto j = prepared(text);
  ASSERT_TRUE(j);
  const auto weights = random_weights(j->graph, 1);
  const auto files = exported(*j, weights);
  EXPECT_THAT(files.files[0].bytes, HasSubstr("    pad_h: 0\n    pad_w: 3\n    kernel_h: 1\n    kernel_w: 7\n    stride_h: 2\n"));
  EXPECT_THAT(files.files[0].bytes, HasSubstr("    dilation: 2\n    dilation: 1\n"));
  EXPECT_THAT(files.files[0].bytes, HasSubstr("    kernel_w: 2\n    stride_h: 1\n    stride_w: 2\n    pad_h: 0\n    pad_w: 1\n"));
  EXPECT_THAT(files.files[0].bytes, Not(HasSubstr("c_pad")));
  const auto m = imported({{"n.caffemodel", files.files[1].bytes}});
  EXPECT_THAT(table_of(m.job, "c"), HasSubstr("kernel = [1, 7]\nstride = [2, 1]\npad = [0, 3]\ndilation = [2, 1]\n"));
  EXPECT_THAT(table_of(m.job, "x"), HasSubstr("kernel = [1, 2]\nstride = [1, 2]\npad = [0, 1]\n"));
  ASSERT_TRUE(prepared(m.job));
  EXPECT_EQ(differences(m.weights, weights), "");
}

TEST(caffe_export, has_embeddings_and_scores_of_sequences) {
  const auto j = prepared("[job]\nname = \"j\"\n[data]\nsource = \"text\"\npath = \"" + std::string(TROUPE_SOURCE_DIR) +
                          "/README.md\"\nsequence = 5\nbatch = 4\n" +
                          layer_table("e", "embedding", "data", "vocabulary = 500\noutputs = 3\n") +
                          layer_table("fc", "linear", "e", "outputs = 500\naxis = 2\n") +
                          "[[layer]]\nname = \"loss\"\ntype = \"softmax_loss\"\ninputs = [\"fc\", "
                          "\"label\"]\n[train.dynamics]\nrule = \"sgd\"\n[train.finish]\nsteps = 1\n");
  ASSERT_TRUE(j);
  const auto files = exported(*j, random_weights(j->graph, 1));
  EXPECT_THAT(files.files[0].bytes, HasSubstr("    input_dim: 500\n    bias_term: false\n"));
  EXPECT_THAT(files.files[0].bytes, HasSubstr("  softmax_param {\n    axis: 2\n  }\n"));
  const auto m = imported({{"n.caffemodel", files.files[1].bytes}});
  EXPECT_THAT(table_of(m.job, "e"), HasSubstr("vocabulary = 500\noutputs = 3\n"));
  EXPECT_EQ(differences(m.weights, random_weights(j->graph, 1)), "");
}

TEST(caffe_export, names_layers_that_caffe_lacks) {
  EXPECT_EQ(why_not(layer_table("x", "gelu", "data")), "job.toml:7:1: layer 'x' (gelu): Caffe has no such layer");
  EXPECT_EQ(why_not(layer_table("x", "upsample", "data")), "job.toml:7:1: layer 'x' (upsample): Caffe has no such layer");
  EXPECT_EQ(why_not(layer_table("x", "layer_norm", "data")), "job.toml:7:1: layer 'x' (layer_norm): Caffe has no such layer");
  EXPECT_EQ(why_not(layer_table("x", "pad", "data", "pad = 1\n")), "job.toml:7:1: layer 'x' (pad): Caffe has no such layer");
  EXPECT_EQ(why_not(layer_table("x", "lstm", "data", "units = 3\n"), "[2, 6]"),
            "job.toml:7:1: layer 'x' (lstm): Caffe has no such layer");
  EXPECT_EQ(why_not(layer_table("x", "crop", "data", "size = [2, 2]\n")),
            "job.toml:7:1: layer 'x' (crop): Caffe's Crop has the extents of a second input, not a size");
  EXPECT_EQ(why_not(layer_table("x", "deconvolution", "data", "outputs = 2\nkernel = 2\nstride = 2\noutput_pad = 1\n")),
            "job.toml:7:1: layer 'x' (deconvolution): Caffe has no output_pad");
  EXPECT_EQ(why_not(layer_table("x", "convolution", "data", "outputs = 2\nkernel = 2\n"), "[2, 6]"),
            "job.toml:7:1: layer 'x' (convolution): only images [N, C, H, W] are exported to Caffe");
  EXPECT_EQ(why_not(layer_table("x", "max_pool", "data", "kernel = 2\n"), "[2, 6]"),
            "job.toml:7:1: layer 'x' (max_pool): only images [N, C, H, W] are exported to Caffe");
  EXPECT_EQ(why_not(layer_table("x", "lrn", "data", "k = 2.0\nregion = \"within_channel\"\n")),
            "job.toml:7:1: layer 'x' (lrn): Caffe's LRN within a channel has k = 1, not 2");
  EXPECT_EQ(why_not(layer_table("x", "avg_pool", "data", "kernel = 3\npad = 1\ncount_padding = false\n")),
            "job.toml:7:1: layer 'x' (avg_pool): Caffe's average counts padding in the divisor (count_padding = false)");
  EXPECT_EQ(why_not(layer_table("x", "relu", "data") +
                    "[[layer]]\nname = \"s\"\ntype = \"softmax_loss\"\ninputs = [\"fc\", \"label\"]\nlabel_smoothing = 0.1\n"),
            "job.toml:11:1: layer 's' (softmax_loss): Caffe has no label_smoothing");
  EXPECT_EQ(why_not(layer_table("x", "relu", "data") +
                    "[[layer]]\nname = \"s\"\ntype = \"sigmoid_cross_entropy\"\ninputs = [\"fc\", \"label\"]\n"),
            "job.toml:11:1: layer 's' (sigmoid_cross_entropy): Caffe's loss takes a target for each score, not class labels");
}

TEST(caffe_export, names_weights_and_names_that_are_not_there) {
  const auto j = prepared(job_with(layer_table("x", "relu", "data")));
  ASSERT_TRUE(j);
  EXPECT_EQ(test::error_text(export_net(*j, {}, {})),
            "the parameter 'fc.weight' has no weights\nthe parameter 'fc.bias' has no weights");
  const auto weights = random_weights(j->graph, 1);
  EXPECT_EQ(test::error_text(export_net(*j, weights, {{"a", "y"}})), "the job has no layer 'y', which the list of names calls 'a'");
  EXPECT_EQ(test::error_text(export_net(*j, weights, {{"fc", "x"}})), "the list of names gives one name to two layers");
}

TEST(caffe_export, notes_what_the_files_do_not_have) {
  const auto j =
      prepared("[job]\nname = \"j\"\n[data]\nsource = \"synthetic\"\nshape = [1, 8, 8]\nbatch = 4\naugment = { crop = 6 }\n" +
               layer_table("x", "batch_norm", "data", "stats = \"batch\"\n") + layer_table("fc", "linear", "x", "outputs = 10\n") +
               "[[layer]]\nname = \"loss\"\ntype = \"softmax_loss\"\ninputs = [\"fc\", \"label\"]\n[train.dynamics]\nrule = "
               "\"sgd\"\n[train.finish]\nsteps = 1\n");
  ASSERT_TRUE(j);
  const auto m = exported(*j, random_weights(j->graph, 1));
  ASSERT_EQ(m.notes.size(), 2u);
  EXPECT_THAT(m.notes[0], HasSubstr("scale, mean and augment of [data] are not part of the files"));
  EXPECT_THAT(m.notes[1], HasSubstr("layer 'x': Caffe's BatchNorm has the statistics of each packet"));
}

}  // namespace
}  // namespace troupe::caffe
