// What an import refuses, each with file, line, column, layer and type.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/node/models/caffe/fields.hpp"
#include "tests/node/caffe_net_text.hpp"

namespace troupe::caffe {
namespace {

using namespace nets;
using testing::HasSubstr;
using testing::StartsWith;

// The mistakes of one layer with these fields on the lines from 3 on.
std::string of_layer(const std::string& type, const std::string& rest, const std::string& more_bottoms = {}) {
  return mistakes_of_net(input_layer() + "layer { name: \"x\" type: \"" + type + "\" bottom: \"data\" " + more_bottoms +
                         " top: \"x\"\n" + rest + "\n}\n" + end_of_net("x"));
}
std::string at(const std::string& place, const std::string& what) { return "net.prototxt:" + place + ": " + what; }

TEST(caffe_errors, name_layer_type_and_field) {
  const std::vector<std::pair<std::string, std::string>> convolutions{
      {"kernel_size: 3", "3:1: layer 'x' (Convolution): convolution_param: 'num_output' is missing"},
      {"num_output: 2", "3:1: layer 'x' (Convolution): convolution_param: 'kernel_size' is missing"},
      {"num_output: 2 kernel_size: 3 stride_h: 2 stride_w: 0",
       "3:63: layer 'x' (Convolution): convolution_param: 'stride_w' is an integer from 1 to 1000000000, not '0'"},
      {"num_output: 2 kernel_size: 3 dilation: 1 dilation: 2 dilation: 3",
       "3:51: layer 'x' (Convolution): convolution_param: 'dilation' has more than two values, for images"},
      {"num_output: 2 kernel_size: 3 axis: 2", "3:51: layer 'x' (Convolution): convolution_param: 'axis' must be 1 for Troupe"},
      {"num_output: 2 kernel_h: 3", "3:36: layer 'x' (Convolution): convolution_param: 'kernel_h' and 'kernel_w' belong together"},
      {"num_output: 2 kernel_size: 3 kernel_h: 3 kernel_w: 3",
       "3:36: layer 'x' (Convolution): convolution_param: has both 'kernel_size' and 'kernel_h' or 'kernel_w'"},
      {"num_output: 0 kernel_size: 3",
       "3:22: layer 'x' (Convolution): convolution_param: 'num_output' is an integer from 1 to 1000000000, not '0'"},
      {"num_output: MAX kernel_size: 3", "3:22: layer 'x' (Convolution): convolution_param: 'num_output' is an integer"},
      {"num_output: 2 num_output: 2 kernel_size: 3",
       "3:36: layer 'x' (Convolution): convolution_param: the field 'num_output' is there twice; first on line 3"},
      {"num_outputs: 2 num_output: 2 kernel_size: 3",
       "3:22: layer 'x' (Convolution): convolution_param: Troupe does not know the field 'num_outputs'; did you mean "
       "'num_output'?"},
      {"num_output: 2 kernel_size: 3 bias_term: maybe",
       "3:51: layer 'x' (Convolution): convolution_param: 'bias_term' is true or false, not 'maybe'"},
      {"num_output: 2 kernel_size: 3 weight_filler { type: \"positive_unitball\" }",
       "3:67: layer 'x' (Convolution): convolution_param: weight_filler: Troupe has no filler 'positive_unitball'"},
      {"num_output: 2 kernel_size: 3 weight_filler { std: \"a\" }",
       "3:67: layer 'x' (Convolution): convolution_param: weight_filler: 'std' is a number, not 'a'"},
      {"num_output: 2 kernel_size: 3 kernel_size: 3 kernel_size: 3",
       "3:36: layer 'x' (Convolution): convolution_param: 'kernel_size' has more than two values, for images"}};
  for (const auto& [rest, wanted] : convolutions)
    EXPECT_EQ(of_layer("Convolution", "convolution_param  { " + rest + " }"),
              at(wanted.substr(0, wanted.find(": ")), wanted.substr(wanted.find(": ") + 2)))
        << rest;
}

// size: a row for each mistake
TEST(caffe_errors, name_what_each_layer_lacks) {
  const std::vector<std::tuple<std::string, std::string, std::string>> cases{
      {"Pooling", "pooling_param { pool: STOCHASTIC kernel_size: 2 }",
       "3:17: layer 'x' (Pooling): pooling_param: 'pool': 'STOCHASTIC' is not supported; Troupe knows MAX, AVE"},
      {"Pooling", "pooling_param { global_pooling: true stride_w: 3 }",
       "3:17: layer 'x' (Pooling): pooling_param: with 'global_pooling' there is no kernel, pad or stride"},
      {"Pooling", "pooling_param { stride: 2 }", "3:1: layer 'x' (Pooling): pooling_param: 'kernel_size' is missing"},
      {"Pooling", "pooling_param { global_pooling: true kernel_size: 2 }",
       "3:17: layer 'x' (Pooling): pooling_param: with 'global_pooling' there is no kernel, pad or stride"},
      {"LRN", "lrn_param { local_size: 4 }", "3:13: layer 'x' (LRN): lrn_param: 'local_size' must be odd"},
      {"ReLU", "relu_param { negative_slope: -1 }", "3:14: layer 'x' (ReLU): relu_param: Troupe's relu has no negative slope"},
      {"ELU", "elu_param { alpha: -1 }", "3:13: layer 'x' (ELU): elu_param: Troupe's elu has no negative alpha"},
      {"Dropout", "dropout_param { dropout_ratio: 1 }",
       "3:17: layer 'x' (Dropout): dropout_param: 'dropout_ratio' is from 0 to below 1"},
      {"Dropout", "dropout_param { scale_train: false }",
       "3:17: layer 'x' (Dropout): dropout_param: Troupe does not know the field 'scale_train'"},
      {"Eltwise", "eltwise_param { operation: PROD coeff: 1 }",
       "3:33: layer 'x' (Eltwise): eltwise_param: 'coeff' belongs to the operation SUM"},
      {"Eltwise", "eltwise_param { coeff: 1 coeff: 2 }",
       "3:17: layer 'x' (Eltwise): eltwise_param: there are 2 coefficients for 1 bottoms"},
      {"Concat", "concat_param { axis: 0 }",
       "3:16: layer 'x' (Concat): concat_param: Troupe's concat counts its axis from the front, from 1 (0 is the axis of "
       "examples)"},
      {"Slice", "slice_param { axis: -4 }",
       "3:15: layer 'x' (Slice): slice_param: Troupe's slice counts its axis from the front, from 1 (0 is the axis of examples)"},
      {"Slice", "slice_param { slice_point: 1 slice_point: 2 }",
       "3:15: layer 'x' (Slice): slice_param: 2 points give 3 pieces, not 1"},
      {"Flatten", "flatten_param { axis: 2 }", "3:17: layer 'x' (Flatten): flatten_param: 'axis' must be 1 for Troupe"},
      {"Flatten", "flatten_param { end_axis: 2 }", "3:17: layer 'x' (Flatten): flatten_param: 'end_axis' must be -1 for Troupe"},
      {"Reshape", "reshape_param { shape { dim: -1 dim: 3 } }",
       "3:25: layer 'x' (Reshape): reshape_param: shape: the first dim must be 0: the axis of the examples stays as it is"},
      {"Reshape", "reshape_param { shape { dim: 0 dim: -1 dim: -1 } }",
       "3:25: layer 'x' (Reshape): reshape_param: shape: Troupe's reshape has 1 to 5 extents behind the axis of the examples, and "
       "at "
       "most one -1"},
      {"Reshape", "reshape_param { axis: 2 shape { dim: 3 } }",
       "3:17: layer 'x' (Reshape): reshape_param: 'axis' must be 0 or 1 for Troupe"},
      {"Crop", "crop_param { axis: 2 }", "2:1: layer 'x' (Crop): a Crop has two bottoms"},
      {"Embed", "embed_param { num_output: 3 input_dim: 9 }",
       "3:1: layer 'x' (Embed): embed_param: Troupe's embedding has no bias: set bias_term: false"},
      {"PReLU", "prelu_param { filler { type: \"gaussian\" } }",
       "3:24: layer 'x' (PReLU): prelu_param: filler: the slopes of Troupe's prelu begin with one value: use \"constant\""},
      {"BatchNorm", "batch_norm_param { moving_average_fraction: 2 }",
       "3:20: layer 'x' (BatchNorm): batch_norm_param: 'moving_average_fraction' is between 0 and 1"},
      {"Scale", "scale_param { axis: 2 }", "3:15: layer 'x' (Scale): scale_param: 'axis' must be 1 for Troupe"},
      {"Bias", "bias_param { num_axes: -1 }", "3:14: layer 'x' (Bias): bias_param: 'num_axes' must be 1 for Troupe"},
      {"Softmax", "softmax_param { axis: -4 }",
       "3:17: layer 'x' (Softmax): softmax_param: Troupe's softmax counts its axis from the front, from 1 (0 is the axis of "
       "examples)"},
      {"InnerProduct", "inner_product_param { num_output: 4 axis: 0 }",
       "3:37: layer 'x' (InnerProduct): inner_product_param: 'axis' is an integer from 1 to 5, not '0'"},
      {"ReLU", "loss_weight: 1", "3:1: layer 'x' (ReLU): only losses have a loss_weight in Troupe"},
      {"ReLU", "lrn_param { local_size: 3 }", "3:1: layer 'x' (ReLU): the field 'lrn_param' is not supported here"},
      {"ReLU", "relu_param: 3", "3:1: layer 'x' (ReLU): 'relu_param' is a message in braces"},
      {"ReLU", "param { lr_mult: -1 }", "2:1: layer 'x' (ReLU): lr_mult and decay_mult must not be negative"},
      {"InnerProduct", "inner_product_param { num_output: 4 } param { } param { } param { }",
       "3:39: layer 'x' (InnerProduct): has factors for 3 parameters, but the layer has 2"},
      {"ReLU", "include { phase: TRAIN } exclude { phase: TEST }",
       "3:26: layer 'x' (ReLU): a layer has rules 'include' or 'exclude', not both"},
      {"ReLU", "blobs { data: 1 }", "2:1: layer 'x' (ReLU): weights in a text file are not read; name the .caffemodel"},
      {"Pooling", "pooling_param { kernel_size: 2 ceil_mode: false round_mode: CEIL }",
       "3:32: layer 'x' (Pooling): pooling_param: 'ceil_mode' and 'round_mode' contradict each other"},
      {"ReLU6", "relu6_param { negative_slope: 0.1 }",
       "3:15: layer 'x' (ReLU6): relu6_param: Troupe's relu6 has no negative slope"},
      {"Permute", "permute_param { order: 1 order: 0 order: 2 order: 3 }",
       "3:17: layer 'x' (Permute): permute_param: the first axis of 'order' must be 0: the axis of the examples stays as it is"},
      {"Power", "power_param { power: 2 }", "3:15: layer 'x' (Power): power_param: 'power' must be 1 for Troupe"},
      {"Interp", "interp_param { }", "3:1: layer 'x' (Interp): interp_param: 'height' and 'width', or a factor, are missing"},
      {"Python", "python_param { module: \"m\" }",
       "2:1: layer 'x' (Python): Troupe does not run the Python code of a net: remove the layer and the layers that need its "
       "output, "
       "or write it as a layer of a plugin"}};
  for (const auto& [type, rest, wanted] : cases) {
    const auto all = of_layer(type, rest);
    EXPECT_EQ(all.substr(0, all.find('\n')), "net.prototxt:" + wanted) << type << " " << rest;
  }
}

TEST(caffe_errors, name_what_losses_lack) {
  const auto of_loss = [](const std::string& type, const std::string& rest) {
    return mistakes_of_net(input_layer() + layer_text("fc", "InnerProduct", "data", "fc", "inner_product_param { num_output: 4 }") +
                           "layer { name: \"loss\" type: \"" + type + "\" bottom: \"fc\" bottom: \"label\" top: \"loss\"\n" + rest +
                           " }\n");
  };
  EXPECT_EQ(of_loss("SoftmaxWithLoss", "loss_param { ignore_label: -1 normalization: FULL }"), "");
  EXPECT_EQ(of_loss("SoftmaxWithLoss", "loss_param { normalization: NONE }"),
            at("4:14",
               "layer 'loss' (SoftmaxWithLoss): loss_param: the normalization NONE is not supported; Troupe's loss is that of "
               "VALID, FULL, BATCH_SIZE"));
  EXPECT_EQ(of_loss("SigmoidCrossEntropyLoss", "loss_param { normalize: true }"),
            at("4:14",
               "layer 'loss' (SigmoidCrossEntropyLoss): loss_param: the normalization VALID is not supported; Troupe's loss is "
               "that of BATCH_SIZE"));
  EXPECT_EQ(of_loss("SoftmaxWithLoss", "softmax_param { axis: 3 }"),
            at("4:17", "layer 'loss' (SoftmaxWithLoss): softmax_param: 'axis' must be 1 or the last axis"));
  EXPECT_EQ(of_loss("SoftmaxWithLoss", "loss_weight: -1"),
            at("4:1", "layer 'loss' (SoftmaxWithLoss): Troupe's loss_weight is not negative"));
  EXPECT_EQ(of_loss("SoftmaxWithLoss", "propagate_down: true propagate_down: false"), "");
  EXPECT_EQ(of_loss("InfogainLoss", ""),
            at("3:1",
               "layer 'loss' (InfogainLoss): Troupe has no layer like InfogainLoss: put another loss in its place, such as "
               "SoftmaxWithLoss, or write it as a layer of a plugin"));
}

TEST(caffe_errors, name_edges_that_do_not_exist) {
  EXPECT_EQ(of_layer("ReLU", "", "bottom: \"nothing\""),
            at("2:32", "layer 'x' (ReLU): its bottom 'nothing' is made by no layer before it"));
  EXPECT_EQ(mistakes_of_net(input_layer() + layer_text("x", "ReLU", "data", "x", "include { phase: TRAIN }") + end_of_net("x")),
            at("3:41", "layer 'fc' (InnerProduct): its bottom 'x' is made by no layer before it in the phase TEST"));
  EXPECT_EQ(mistakes_of_net(input_layer() + layer_text("a", "ReLU", "data", "x", "include { phase: TRAIN }") +
                            layer_text("b", "TanH", "data", "x", "exclude { phase: TRAIN }") + end_of_net("x")),
            at("4:41",
               "layer 'fc' (InnerProduct): its bottom 'x' is 'a' in the phase TRAIN and 'b' in TEST; Troupe's layers have the same "
               "inputs in both"));
}

TEST(caffe_errors, name_what_a_net_lacks) {
  EXPECT_EQ(mistakes_of_net(""), "net.prototxt: the net has no layers");
  EXPECT_EQ(mistakes_of_net(layer_text("x", "ReLU", "data", "x")),
            at("1:32", "layer 'x' (ReLU): its bottom 'data' is made by no layer before it"));
  EXPECT_EQ(mistakes_of_net("layer { name: \"x\" }\n" + input_layer() + end_of_net("data")), at("1:1", "layer 'x' has no type"));
  EXPECT_EQ(mistakes_of_net("layers { layer { name: \"x\" type: \"conv\" } }\n"),
            at("1:1",
               "layer '' has no type; layers of Caffe before version 1 are not supported: upgrade the file with Caffe's "
               "upgrade_net_proto_text") +
                "\n" + at("1:1", "layer '': a layer needs a name"));
  EXPECT_EQ(mistakes_of_net("layers { name: \"x\" type: CONVOLUTIONS bottom: \"a\" top: \"b\" }\n"),
            at("1:20", "layer 'x': 'CONVOLUTIONS' is no layer type of `layers`"));
  EXPECT_EQ(mistakes_of_net("layer { name: \"x\" type: RELU bottom: \"a\" top: \"b\" }\n"),
            at("1:19", "layer 'x': 'RELU' is no layer type; a type of `layer` is in quotes"));
  EXPECT_EQ(mistakes_of_net("layer: 3\n" + input_layer() + end_of_net("data")), at("1:1", "'layer' is a message in braces"));
  EXPECT_THAT(mistakes_of_net("layers { name: \"r\" type: RELU bottom: \"data\" top: \"b\" }\n" + input_layer()),
              StartsWith(at("1:1", "a net has `layer` or the older `layers`, not both\n")));
  EXPECT_THAT(mistakes_of_net("input: \"data\" input_dim: 3\n" + end_of_net("data")),
              StartsWith(at("1:1", "each input needs four numbers input_dim, or an input_shape\n")));
  EXPECT_EQ(mistakes_of_net("colour: \"red\"\n" + input_layer() + end_of_net("data")),
            at("1:1", "Troupe does not know the field 'colour'"));
}

TEST(caffe_errors, name_data_that_is_not_supported) {
  const auto net = [](const std::string& data) { return mistakes_of_net(data + "\n" + end_of_net("data")); };
  EXPECT_EQ(net("layer { name: \"d\" type: \"Data\" top: \"data\" top: \"label\" data_param { batch_size: 4 } }"),
            at("1:57", "layer 'd' (Data): data_param: 'source' is missing"));
  EXPECT_EQ(net("layer { name: \"d\" type: \"Data\" top: \"data\" top: \"label\" data_param { source: \"s\" } }"),
            at("1:57", "layer 'd' (Data): data_param: 'batch_size' is missing"));
  EXPECT_EQ(net(input_layer() + "layer { name: \"d\" type: \"Data\" top: \"more\" data_param { source: \"s\" batch_size: 4 } }"),
            at("2:1", "layer 'd' (Data): the net has a second data layer in one phase; Troupe's jobs have one source"));
}

TEST(caffe_errors, name_fields_of_data_that_are_misspelt) {
  const auto net = [](const std::string& fields) {
    return mistakes_of_net("layer { name: \"d\" type: \"Data\" top: \"data\" top: \"label\"\n" + fields + " }\n" +
                           end_of_net("data"));
  };
  const std::string data = " data_param { source: \"s\" batch_size: 4 backend: LMDB }";
  EXPECT_EQ(net("transform_param { scal: 0.0039 }" + data),
            at("2:19", "layer 'd' (Data): transform_param: Troupe does not know the field 'scal'; did you mean 'scale'?"));
  EXPECT_EQ(net("data_param { source: \"s\" batch_size: 4 backnd: LMDB }"),
            at("2:40", "layer 'd' (Data): data_param: Troupe does not know the field 'backnd'; did you mean 'backend'?"));
  EXPECT_EQ(net("transfrom_param { scale: 0.0039 }" + data),
            at("2:1", "layer 'd' (Data): Troupe does not know the field 'transfrom_param'; did you mean 'transform_param'?"));
  EXPECT_EQ(
      net("transform_param { random_resize_param { min_size: 3 } max_random_area: 1 } video_data_param { new_length: 16 }" + data),
      "")
      << "fields of relatives of Caffe are notes";
}

TEST(caffe_errors, name_what_a_solver_lacks) {
  const auto of_solver = [](const std::string& text) {
    return mistakes({{"net.prototxt", input_layer() + end_of_net("data")}, {"solver.prototxt", "base_lr: 0.1\n" + text}});
  };
  EXPECT_EQ(of_solver("lr_policy: \"sigmoid\""), "solver.prototxt:2:1: solver: Troupe has no schedule like lr_policy 'sigmoid'");
  EXPECT_EQ(of_solver("lr_policy: \"step\""), "solver.prototxt:2:1: solver: lr_policy 'step' needs 'stepsize'");
  EXPECT_EQ(of_solver("lr_policy: \"poly\""), "solver.prototxt:2:1: solver: lr_policy 'poly' needs 'max_iter'");
  EXPECT_EQ(of_solver("type: \"LBFGS\""), "solver.prototxt:2:1: solver: Troupe has no rule like the solver 'LBFGS'");
  EXPECT_EQ(of_solver("regularization_type: \"L1\""), "solver.prototxt:2:1: solver: Troupe's decay is L2, not 'L1'");
  EXPECT_EQ(of_solver("max_iters: 1"), "solver.prototxt:2:1: solver: Troupe does not know the field 'max_iters'");
  EXPECT_EQ(of_solver("max_iter: 1.5"), "solver.prototxt:2:1: solver: 'max_iter' is an integer from 1 to 1000000000, not '1.5'");
}

TEST(caffe_errors, name_files_that_are_too_many_or_missing) {
  const auto net = input_layer() + end_of_net("data");
  EXPECT_EQ(mistakes({{"a.prototxt", net}, {"b.prototxt", net}}), "b.prototxt: is a second net; the first is a.prototxt");
  EXPECT_EQ(mistakes({{"a.prototxt", "base_lr: 1"}, {"b.prototxt", "base_lr: 1"}}),
            "b.prototxt: is a second solver; the first is a.prototxt");
  EXPECT_EQ(mistakes({{"a.prototxt", "base_lr: 1"}}), "a.prototxt: there is no net among the files: name its .prototxt");
  EXPECT_EQ(mistakes({{"a.caffemodel", ""}, {"b.caffemodel", ""}}),
            "b.caffemodel: is a second .caffemodel; the first is a.caffemodel");
  EXPECT_EQ(mistakes({{"a.prototxt", "layer {"}}), "a.prototxt:1:8: the message 'layer' of line 1 is not closed: expected '}'");
  EXPECT_EQ(test::error_text(import_files({{"/nonexistent.prototxt"}, {}})).substr(0, 23), "/nonexistent.prototxt: ");
}

// A .caffemodel with blobs of these shapes for the layer "x".
std::string model_of(const std::vector<std::vector<std::int64_t>>& shapes, const std::string& name = "x") {
  binary_net n;
  proto_field layer;
  layer.name = "layer";
  proto_field field;
  field.name = "name", field.what = proto_field::kind::text, field.text = name;
  layer.fields.push_back(field);
  for (const auto& s : shapes) {
    blob b;
    std::int64_t count = 1;
    for (const auto d : s) count *= d;
    b.dims = s, b.values = std::make_shared<const std::vector<float>>(static_cast<std::size_t>(count), 1.0F);
    field.name = "blobs", field.what = proto_field::kind::blob, field.text = std::to_string(n.blobs.size());
    layer.fields.push_back(field);
    n.blobs.push_back(std::move(b));
  }
  n.net.fields.push_back(std::move(layer));
  auto bytes = binary_of(n);
  EXPECT_TRUE(bytes);
  return bytes ? *bytes : "";
}

TEST(caffe_errors, name_weights_that_do_not_fit) {
  const auto with = [](const std::string& layer, const std::string& model) {
    return mistakes({{"net.prototxt", input_layer() + layer +
                                          "layer { name: \"l\" type: \"HingeLoss\" bottom: \"x\" bottom: \"label\" top: \"l\" }\n"},
                     {"m.caffemodel", model}});
  };
  const auto fc = layer_text("x", "InnerProduct", "data", "x", "inner_product_param { num_output: 4 }");
  EXPECT_EQ(with(fc, model_of({{4, 192}, {4}})), "");
  EXPECT_EQ(with(fc, model_of({{1, 1, 4, 192}, {4}})),
            at("2:1", "layer 'x' (InnerProduct): its blob 0 (weight) has the shape 1x1x4x192, expected 4x?"));
  EXPECT_EQ(with(fc, model_of({{5, 192}, {4}})),
            at("2:1", "layer 'x' (InnerProduct): its blob 0 (weight) has the shape 5x192, expected 4x?"));
  EXPECT_EQ(with(fc, model_of({{4, 192}, {}})),
            at("2:1", "layer 'x' (InnerProduct): its blob 1 (bias) has the shape scalar, expected 4"));
  EXPECT_EQ(with(fc, model_of({{4, 192}})),
            at("2:1", "layer 'x' (InnerProduct): the .caffemodel has 1 blobs for it, but it has 2 parameters here"));
  EXPECT_EQ(with(fc, model_of({{4, 192}, {4}}, "y")), at("2:1", "layer 'x' (InnerProduct): the .caffemodel has no weights for it"));
  const auto norm = layer_text("x", "BatchNorm", "data", "b") +
                    layer_text("fc", "InnerProduct", "b", "x", "inner_product_param { num_output: 4 }");
  EXPECT_THAT(with(norm, model_of({{3}, {3}})),
              HasSubstr("layer 'x' (BatchNorm): the .caffemodel has 2 blobs for it, expected mean, variance and factor"));
  EXPECT_THAT(with(norm, model_of({{3}, {3}, {2}})), HasSubstr("layer 'x' (BatchNorm): its blob 2 has the shape 2, expected 1"));
  EXPECT_THAT(with(norm, model_of({{3}, {3, 1}, {1}})),
              HasSubstr("layer 'x' (BatchNorm): its blob 1 has the shape 3x1, expected one axis"));
}

TEST(caffe_errors, bound_the_number_of_layers) {
  std::string text;
  for (int i = 0; i < 10001; ++i) text += "layer{}";
  EXPECT_EQ(mistakes_of_net(text), "net.prototxt: the net has more than 10000 layers");
}

TEST(caffe_errors, are_at_most_a_hundred) {
  std::string text = input_layer();
  for (int i = 0; i < 300; ++i) text += "layer { name: \"x\" type: \"ReLU\" bottom: \"data\" top: \"x\" colour: 1 }\n";
  const auto all = mistakes_of_net(text + end_of_net("x"));
  EXPECT_LE(std::count(all.begin(), all.end(), '\n'), 101);
}

// A net of many layers may give rise to a note for each of them, and to some for all of them.
TEST(caffe_errors, notes_are_kept_once_in_the_order_in_which_they_are_made) {
  findings found;
  std::vector<std::string> wanted{"all"};
  for (int n = 0; n < 20000; ++n) {
    found.note("all");
    found.note("layer " + std::to_string(n));
    wanted.push_back("layer " + std::to_string(n));
  }
  EXPECT_EQ(found.notes, wanted);
}

}  // namespace
}  // namespace troupe::caffe
