// Nets of Caffe as jobs: LeNet, AlexNet's layers, a residual block, an inception block, data
// layers, phases, solvers, the older form of layers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/node/caffe_net_text.hpp"

namespace troupe::caffe {
namespace {

using namespace nets;
using testing::HasSubstr;
using testing::Not;

const char* const lenet = R"(
name: "LeNet"
layer { name: "mnist" type: "Data" top: "data" top: "label" include { phase: TRAIN } transform_param { scale: 0.5 mean_value: 10 mean_value: 20 crop_size: 24 mirror: true }
  data_param { source: "mnist_train_lmdb" batch_size: 64 backend: LMDB } }
layer { name: "mnist" type: "Data" top: "data" top: "label" include { phase: TEST } data_param { source: "mnist_test_lmdb" batch_size: 100 backend: LMDB } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1" param { lr_mult: 1 } param { lr_mult: 2 decay_mult: 0 }
  convolution_param { num_output: 20 kernel_size: 5 stride: 1 weight_filler { type: "xavier" } bias_filler { type: "constant" } } }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1" pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "ip1" type: "InnerProduct" bottom: "pool1" top: "ip1" inner_product_param { num_output: 500 weight_filler { type: "gaussian" std: 0.01 } } }
layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "drop1" type: "Dropout" bottom: "ip1" top: "ip1" dropout_param { dropout_ratio: 0.4 } include { phase: TRAIN } }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2" inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "accuracy" type: "Accuracy" bottom: "ip2" bottom: "label" top: "accuracy" include { phase: TEST } accuracy_param { top_k: 5 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" loss_weight: 0.3 }
)";

TEST(caffe_import, makes_a_job_of_lenet) {
  const auto m = imported_net(lenet);
  EXPECT_EQ(section(m.job, "data"),
            "source = \"lmdb\"\npath = \"mnist_train_lmdb\"\ntest_path = \"mnist_test_lmdb\"\nbatch = 64\nscale = [0.5]\nmean = "
            "[5.0, 10.0]\nchannel_order = \"bgr\"\n")
      << "Caffe subtracts the mean before it scales";
  EXPECT_EQ(section(m.job, "data.augment"), "crop = 24\nmirror = true\n");
  EXPECT_EQ(section(m.job, "eval"), "batch = 100\n");
  EXPECT_EQ(table_of(m.job, "conv1"),
            "name = \"conv1\"\ntype = \"convolution\"\ninputs = [\"data\"]\noutputs = 20\nkernel = 5\nweight_filler = { kind = "
            "\"xavier\" }\n"
            "lr_scale = [1.0, 2.0]\ndecay_scale = [1.0, 0.0]\n");
  EXPECT_EQ(table_of(m.job, "pool1"), "name = \"pool1\"\ntype = \"max_pool\"\ninputs = [\"conv1\"]\nkernel = 2\nstride = 2\n");
  EXPECT_THAT(table_of(m.job, "ip1"), HasSubstr("weight_filler = { kind = \"gaussian\", mean = 0.0, std = 0.01 }"));
  EXPECT_EQ(table_of(m.job, "relu1"), "name = \"relu1\"\ntype = \"relu\"\ninputs = [\"ip1\"]\n");
  EXPECT_EQ(table_of(m.job, "drop1"), "name = \"drop1\"\ntype = \"dropout\"\ninputs = [\"relu1\"]\nratio = 0.4\n")
      << "in place, and without effect in tests, so it needs no phase";
  EXPECT_THAT(table_of(m.job, "ip2"), HasSubstr("inputs = [\"drop1\"]"));
  EXPECT_EQ(table_of(m.job, "accuracy"),
            "name = \"accuracy\"\ntype = \"accuracy\"\ninputs = [\"ip2\", \"label\"]\nphase = \"test\"\ntop_k = 5\n");
  EXPECT_EQ(table_of(m.job, "loss"),
            "name = \"loss\"\ntype = \"softmax_loss\"\ninputs = [\"ip2\", \"label\"]\nloss_weight = 0.3\n");
  EXPECT_TRUE(m.weights.empty());
}

TEST(caffe_import, reads_a_net_for_deployment_as_a_job_with_a_loss) {
  const auto m =
      imported_net("name: \"d\" input: \"data\" input_dim: 10 input_dim: 3 input_dim: 20 input_dim: 21 " +
                   layer_text("conv", "Convolution", "data", "c", "convolution_param { num_output: 7 kernel_h: 3 kernel_w: 2 }") +
                   layer_text("pool", "Pooling", "c", "p", "pooling_param { pool: AVE global_pooling: true }") +
                   layer_text("prob", "Softmax", "p", "prob"));
  EXPECT_EQ(section(m.job, "data"),
            "source = \"synthetic\"\nshape = [3, 20, 21]\nclasses = 7\nbatch = 10\nchannel_order = \"bgr\"\n");
  EXPECT_EQ(table_of(m.job, "prob"), "none");
  EXPECT_EQ(table_of(m.job, "pool_flat"), "name = \"pool_flat\"\ntype = \"flatten\"\ninputs = [\"pool\"]\n");
  EXPECT_EQ(table_of(m.job, "loss"), "name = \"loss\"\ntype = \"softmax_loss\"\ninputs = [\"pool_flat\", \"label\"]\n");
  const auto j = prepared(m.job);
  ASSERT_TRUE(j);
  EXPECT_EQ(j->graph.layers[0].out[0], (shape{10, 7, 18, 20}));
}

TEST(caffe_import, has_alexnets_layers) {
  const auto m = imported_net(
      input_layer("dim: 2 dim: 3 dim: 67 dim: 67") +
      layer_text("conv1", "Convolution", "data", "conv1", "convolution_param { num_output: 8 kernel_size: 11 stride: 4 }") +
      layer_text("relu1", "ReLU", "conv1", "conv1") +
      layer_text("norm1", "LRN", "conv1", "norm1", "lrn_param { local_size: 5 alpha: 0.0001 beta: 0.75 k: 2 }") +
      layer_text("pool1", "Pooling", "norm1", "pool1", "pooling_param { pool: MAX kernel_size: 3 stride: 2 }") +
      layer_text("conv2", "Convolution", "pool1", "conv2", "convolution_param { num_output: 8 pad: 2 kernel_size: 5 group: 2 }") +
      layer_text("norm2", "LRN", "conv2", "norm2", "lrn_param { local_size: 3 alpha: 2 k: 9 norm_region: WITHIN_CHANNEL }") +
      layer_text("drop", "Dropout", "norm2", "norm2") + end_of_net("norm2"));
  EXPECT_THAT(table_of(m.job, "norm1"), HasSubstr("size = 5\nalpha = 1e-04\nbeta = 0.75\nk = 2.0\n"));
  EXPECT_THAT(table_of(m.job, "norm2"), HasSubstr("region = \"within_channel\"\n"));
  EXPECT_THAT(table_of(m.job, "norm2"), Not(HasSubstr("k = "))) << "Caffe does not read k within a channel";
  EXPECT_THAT(table_of(m.job, "conv2"), HasSubstr("groups = 2"));
  const auto j = prepared(m.job);
  ASSERT_TRUE(j);
  EXPECT_EQ(j->graph.layers[3].out[0], (shape{2, 8, 7, 7})) << "(15 - 3) / 2 + 1";
  EXPECT_EQ(j->graph.layers[4].type, "convolution");
}

std::string residual_block(const std::string& scale) {
  return input_layer() +
         layer_text("conv", "Convolution", "data", "conv",
                    "convolution_param { num_output: 3 kernel_size: 3 pad: 1 bias_term: false }") +
         layer_text("bn", "BatchNorm", "conv", "conv",
                    "param { lr_mult: 0 } param { lr_mult: 0 } param { lr_mult: 0 } batch_norm_param { moving_average_fraction: "
                    "0.99 eps: 0.001 }") +
         layer_text("scale", "Scale", "conv", "conv", scale) + layer_text("relu", "ReLU", "conv", "conv") +
         "layer { name: \"sum\" type: \"Eltwise\" bottom: \"conv\" bottom: \"data\" top: \"sum\" eltwise_param { coeff: 1 coeff: "
         "0.5 } }\n" +
         end_of_net("sum");
}

TEST(caffe_import, merges_batch_norm_and_scale) {
  const auto m =
      imported_net(residual_block("param { lr_mult: 3 } param { lr_mult: 4 decay_mult: 0 } scale_param { bias_term: true }"));
  EXPECT_EQ(table_of(m.job, "bn"),
            "name = \"bn\"\ntype = \"batch_norm\"\ninputs = [\"conv\"]\nmomentum = 0.01\nepsilon = 0.001\nlr_scale = [3.0, 4.0, "
            "1.0, 1.0]\n"
            "decay_scale = [1.0, 0.0, 1.0, 1.0]\n");
  EXPECT_EQ(table_of(m.job, "scale"), "none");
  EXPECT_THAT(table_of(m.job, "relu"), HasSubstr("inputs = [\"bn\"]"));
  EXPECT_EQ(table_of(m.job, "sum"), "name = \"sum\"\ntype = \"eltwise\"\ninputs = [\"relu\", \"data\"]\ncoeffs = [1.0, 0.5]\n");
  ASSERT_TRUE(prepared(m.job));
}

TEST(caffe_import, keeps_a_scale_that_is_no_part_of_a_batch_norm) {
  for (const auto* scale :
       {"", "scale_param { bias_term: true filler { value: 2 } }", "scale_param { bias_term: true bias_filler { value: 1 } }"}) {
    const auto m = imported_net(residual_block(scale));
    EXPECT_THAT(table_of(m.job, "bn"), HasSubstr("affine = false")) << scale;
    EXPECT_THAT(table_of(m.job, "scale"), HasSubstr("inputs = [\"bn\"]")) << scale;
    ASSERT_TRUE(prepared(m.job));
  }
  const auto read_twice =
      imported_net(input_layer() + layer_text("bn", "BatchNorm", "data", "bn") +
                   layer_text("scale", "Scale", "bn", "scale", "scale_param { bias_term: true }") +
                   "layer { name: \"c\" type: \"Concat\" bottom: \"bn\" bottom: \"scale\" top: \"c\" }\n" + end_of_net("c"));
  EXPECT_THAT(table_of(read_twice.job, "scale"), HasSubstr("type = \"scale\""));
}

TEST(caffe_import, merges_only_the_first_of_two_scales) {
  const auto m = imported_net(input_layer() + layer_text("bn", "BatchNorm", "data", "x") +
                              layer_text("s1", "Scale", "x", "x", "scale_param { bias_term: true }") +
                              layer_text("s2", "Scale", "x", "x", "scale_param { bias_term: true }") + end_of_net("x"));
  EXPECT_EQ(table_of(m.job, "s1"), "none");
  EXPECT_THAT(table_of(m.job, "s2"), HasSubstr("inputs = [\"bn\"]"));
  ASSERT_TRUE(prepared(m.job));
}

TEST(caffe_import, reads_batch_norms_of_both_phases_as_one) {
  const auto m = imported_net(
      input_layer() + layer_text("bn", "BatchNorm", "data", "bn", "include { phase: TRAIN }") +
      layer_text("bn", "BatchNorm", "data", "bn", "include { phase: TEST } batch_norm_param { use_global_stats: true }") +
      end_of_net("bn"));
  EXPECT_THAT(table_of(m.job, "bn"), Not(HasSubstr("phase")));
  ASSERT_TRUE(prepared(m.job));
}

TEST(caffe_import, has_an_inception_block) {
  const auto branch = [](const std::string& name, const std::string& rest) {
    return layer_text("in/" + name, "Convolution", "data", "in/" + name, "convolution_param { num_output: 4 " + rest + " }") +
           layer_text("in/relu_" + name, "ReLU", "in/" + name, "in/" + name);
  };
  const auto m = imported_net(
      input_layer() + branch("1x1", "kernel_size: 1") + branch("3x3", "kernel_size: 3 pad: 1") +
      branch("1x7", "kernel_h: 1 kernel_w: 7 pad_h: 0 pad_w: 3") +
      "layer { name: \"in/output\" type: \"Concat\" bottom: \"in/1x1\" bottom: \"in/3x3\" bottom: \"in/1x7\" top: \"out\" }\n" +
      end_of_net("out"));
  EXPECT_THAT(table_of(m.job, "in_output"), HasSubstr("inputs = [\"in_relu_1x1\", \"in_relu_3x3\", \"in_relu_1x7\"]"));
  EXPECT_THAT(table_of(m.job, "in_1x7"), HasSubstr("outputs = 4\nkernel = [1, 7]\npad = [0, 3]\n"));
  EXPECT_TRUE(noted(m, "'in/1x1' is 'in_1x1', and 6 more"));
  const auto j = prepared(m.job);
  ASSERT_TRUE(j);
  EXPECT_EQ(j->graph.layers[6].out[0], (shape{4, 12, 8, 8}));
}

TEST(caffe_import, has_windows_that_differ_by_axis) {
  const auto m = imported_net(
      input_layer() +
      layer_text(
          "c", "Convolution", "data", "c",
          "convolution_param { num_output: 3 kernel_size: 3 stride_h: 2 stride_w: 1 pad: 1 pad: 2 dilation: 1 dilation: 2 }") +
      layer_text("d", "Deconvolution", "c", "d",
                 "convolution_param { num_output: 2 kernel_size: 2 kernel_size: 3 stride: 2 stride: 2 pad_w: 1 }") +
      layer_text("p", "Pooling", "d", "p", "pooling_param { kernel_h: 3 kernel_w: 2 stride_h: 1 stride_w: 2 pad_h: 1 }") +
      end_of_net("p"));
  EXPECT_THAT(table_of(m.job, "c"), HasSubstr("outputs = 3\nkernel = 3\nstride = [2, 1]\npad = [1, 2]\ndilation = [1, 2]\n"));
  EXPECT_THAT(table_of(m.job, "d"), HasSubstr("outputs = 2\nkernel = [2, 3]\nstride = 2\npad = [0, 1]\n"));
  EXPECT_THAT(table_of(m.job, "p"), HasSubstr("kernel = [3, 2]\nstride = [1, 2]\npad = [1, 0]\n"));
  ASSERT_TRUE(prepared(m.job));
}

TEST(caffe_import, takes_names_of_layers_from_a_list) {
  const auto text = input_layer() + layer_text("a/b", "ReLU", "data", "x") + end_of_net("x");
  const auto m = imported({{"net.prototxt", text}}, {{"a/b", "first"}});
  EXPECT_THAT(table_of(m.job, "fc"), HasSubstr("inputs = [\"first\"]"));
  EXPECT_EQ(mistakes({{"net.prototxt", text}}, {{"a/c", "first"}}),
            "net.prototxt: there is no layer 'a/c', which the list of names has");
}

TEST(caffe_import, makes_names_unique) {
  const auto m = imported_net(input_layer() + layer_text("a/b", "ReLU", "data", "x") + layer_text("a.b", "ReLU", "x", "y") +
                              layer_text("label", "TanH", "y", "z") + layer_text("\\303\\244", "ReLU", "z", "z") + end_of_net("z"));
  EXPECT_THAT(table_of(m.job, "a_b_2"), HasSubstr("inputs = [\"a_b\"]"));
  EXPECT_THAT(table_of(m.job, "label_2"), HasSubstr("inputs = [\"a_b_2\"]"));
  EXPECT_THAT(table_of(m.job, "__"), HasSubstr("inputs = [\"label_2\"]"));
  ASSERT_TRUE(prepared(m.job));
}

TEST(caffe_import, has_all_other_layers) {
  const auto m = imported_net(
      input_layer("dim: 4 dim: 6 dim: 8 dim: 8") + layer_text("elu", "ELU", "data", "a", "elu_param { alpha: 0.5 }") +
      "layer { name: \"cut\" type: \"Slice\" bottom: \"a\" top: \"s0\" top: \"s1\" top: \"s2\" slice_param { slice_point: 1 "
      "slice_point: 3 } }\n" +
      "layer { name: \"halves\" type: \"Slice\" bottom: \"s2\" top: \"h0\" top: \"h1\" slice_param { axis: 2 } }\n" +
      "layer { name: \"two\" type: \"Split\" bottom: \"h0\" top: \"t0\" top: \"t1\" }\n" +
      "layer { name: \"max\" type: \"Eltwise\" bottom: \"t0\" bottom: \"t1\" bottom: \"h1\" top: \"m\" eltwise_param { operation: "
      "MAX } }\n" +
      layer_text("flat1", "Flatten", "s0", "f0") +
      layer_text("flat2", "Reshape", "s1", "f1", "reshape_param { shape { dim: 0 dim: -1 } }") +
      layer_text("up", "Deconvolution", "m", "u", "convolution_param { num_output: 3 kernel_size: 2 stride: 2 group: 3 }") +
      "layer { name: \"box\" type: \"Crop\" bottom: \"u\" bottom: \"data\" top: \"box\" crop_param { axis: 3 offset: 2 } }\n" +
      layer_text("slope", "PReLU", "box", "box", "prelu_param { channel_shared: true filler { value: 0.1 } }") +
      layer_text("b", "Bias", "box", "box", "bias_param { filler { value: 3 } }") + layer_text("sig", "Sigmoid", "box", "box") +
      layer_text("tanh", "TanH", "box", "box") + layer_text("leaky", "ReLU", "box", "box", "relu_param { negative_slope: 0.2 }") +
      layer_text("seen", "Reshape", "box", "seen", "reshape_param { axis: 1 shape { dim: 0 dim: 2 dim: -1 } }") +
      layer_text("soft", "Softmax", "seen", "soft", "softmax_param { axis: 3 }") + layer_text("flat3", "Flatten", "soft", "f2") +
      "layer { name: \"all\" type: \"Concat\" bottom: \"f0\" bottom: \"f1\" bottom: \"f2\" top: \"all\" }\n" +
      layer_text("fc", "InnerProduct", "all", "fc", "inner_product_param { num_output: 10 bias_term: false }") +
      "layer { name: \"h\" type: \"HingeLoss\" bottom: \"fc\" bottom: \"label\" top: \"h\" hinge_loss_param { norm: L2 } }\n" +
      layer_text("quiet", "Silence", "u", "x"));
  EXPECT_THAT(table_of(m.job, "halves"), HasSubstr("inputs = [\"cut.2\"]\naxis = 2\nparts = 2\n"));
  EXPECT_THAT(table_of(m.job, "cut"), HasSubstr("points = [1, 3]\n"));
  EXPECT_THAT(table_of(m.job, "max"), HasSubstr("inputs = [\"two\", \"two.1\", \"halves.1\"]\noperation = \"max\"\n"));
  EXPECT_THAT(table_of(m.job, "flat2"), HasSubstr("type = \"flatten\"\ninputs = [\"cut.1\"]"));
  EXPECT_THAT(table_of(m.job, "seen"), HasSubstr("type = \"reshape\"\ninputs = [\"leaky\"]\nshape = [0, 2, -1]\n"));
  EXPECT_THAT(table_of(m.job, "soft"), HasSubstr("axis = 3\n"));
  EXPECT_THAT(table_of(m.job, "box"), HasSubstr("inputs = [\"up\", \"data\"]\naxis = 3\noffsets = [2]\n"));
  EXPECT_THAT(table_of(m.job, "slope"), HasSubstr("shared = true\nslope = 0.1\ndecay_scale = [1.0]\n"))
      << "Caffe decays the slopes, Troupe by default does not";
  EXPECT_THAT(table_of(m.job, "b"), HasSubstr("bias_filler = { kind = \"constant\", value = 3.0 }"));
  EXPECT_THAT(table_of(m.job, "leaky"), HasSubstr("slope = 0.2"));
  EXPECT_THAT(table_of(m.job, "h"), HasSubstr("norm = \"l2\""));
}

TEST(caffe_import, reads_losses_with_targets) {
  const auto m =
      imported_net(input_layer() + layer_text("e", "InnerProduct", "data", "e", "inner_product_param { num_output: 192 }") +
                   layer_text("flat", "Flatten", "data", "flat") +
                   "layer { name: \"l2\" type: \"EuclideanLoss\" bottom: \"e\" bottom: \"flat\" top: \"l2\" loss_weight: 2 }\n" +
                   "layer { name: \"ce\" type: \"SigmoidCrossEntropyLoss\" bottom: \"e\" bottom: \"flat\" top: \"ce\" }\n");
  EXPECT_THAT(table_of(m.job, "l2"), HasSubstr("type = \"euclidean\"\ninputs = [\"e\", \"flat\"]\nloss_weight = 2.0\n"));
  EXPECT_THAT(table_of(m.job, "ce"), HasSubstr("type = \"sigmoid_cross_entropy\""));
  ASSERT_TRUE(prepared(m.job));
}

TEST(caffe_import, compares_images_as_they_are) {
  const auto m = imported_net(
      input_layer() + layer_text("c", "Convolution", "data", "c", "convolution_param { num_output: 3 kernel_size: 3 pad: 1 }") +
      "layer { name: \"l2\" type: \"EuclideanLoss\" bottom: \"c\" bottom: \"data\" top: \"l2\" }\n");
  EXPECT_THAT(table_of(m.job, "l2"), HasSubstr("inputs = [\"c\", \"data\"]"));
  ASSERT_TRUE(prepared(m.job));
}

TEST(caffe_import, leaves_out_what_nothing_uses) {
  const auto m =
      imported_net(input_layer() + end_of_net("data") + layer_text("prob", "Softmax", "fc", "prob", "include { phase: TEST }") +
                   layer_text("side", "ReLU", "data", "side") + layer_text("side2", "TanH", "side", "side2"));
  EXPECT_EQ(table_of(m.job, "prob"), "none");
  EXPECT_EQ(table_of(m.job, "side"), "none");
  EXPECT_TRUE(noted(m, "layer 'side' (relu) is left out"));
  ASSERT_TRUE(prepared(m.job));
}

TEST(caffe_import, reads_layers_of_the_first_version) {
  const auto m = imported_net(R"(
name: "old"
layers { name: "data" type: DATA top: "data" top: "label" data_param { source: "db" batch_size: 256 scale: 0.5 crop_size: 20 mirror: true backend: LMDB } }
layers { name: "conv" type: CONVOLUTION bottom: "data" top: "conv" blobs_lr: 1 blobs_lr: 2 weight_decay: 1 weight_decay: 0 convolution_param { num_output: 6 kernel_size: 3 } }
layers { name: "relu" type: RELU bottom: "conv" top: "conv" }
layers { name: "cat" type: CONCAT bottom: "conv" bottom: "conv" top: "cat" concat_param { concat_dim: 2 } }
layers { name: "fc" type: INNER_PRODUCT bottom: "cat" top: "fc" inner_product_param { num_output: 4 } }
layers { name: "acc" type: ACCURACY bottom: "fc" bottom: "label" top: "acc" include: { phase: TEST } }
layers { name: "loss" type: SOFTMAX_LOSS bottom: "fc" bottom: "label" }
)");
  EXPECT_THAT(section(m.job, "data"), HasSubstr("source = \"lmdb\"\npath = \"db\"\nbatch = 256\nscale = [0.5]\n"));
  EXPECT_TRUE(noted(m, "the net has one database"));
  EXPECT_EQ(section(m.job, "data.augment"), "crop = 20\nmirror = true\n");
  EXPECT_THAT(table_of(m.job, "conv"), HasSubstr("lr_scale = [1.0, 2.0]\ndecay_scale = [1.0, 0.0]\n"));
  EXPECT_THAT(table_of(m.job, "cat"), HasSubstr("inputs = [\"relu\", \"relu\"]\naxis = 2\n"));
  EXPECT_THAT(table_of(m.job, "acc"), HasSubstr("phase = \"test\""));
}

TEST(caffe_import, keeps_the_channels_that_a_database_is_converted_to) {
  const auto data = [](const std::string& transform, const std::string& param) {
    return section(imported_net("layer { name: \"d\" type: \"Data\" top: \"data\" top: \"label\" transform_param { " + transform +
                                " } data_param { source: \"x\" batch_size: 4 backend: LMDB " + param + " } }" + end_of_net("data"))
                       .job,
                   "data");
  };
  EXPECT_EQ(data("force_gray: true", ""), "source = \"lmdb\"\npath = \"x\"\nchannels = 1\nbatch = 4\n");
  EXPECT_THAT(data("force_color: true", ""), HasSubstr("channels = 3\nbatch = 4\nchannel_order = \"bgr\"\n"));
  EXPECT_THAT(data("", "force_encoded_color: true"), HasSubstr("channels = 3\n"));
  EXPECT_THAT(data("force_gray: false", ""), Not(HasSubstr("channels = ")));
}

TEST(caffe_import, notes_data_that_it_does_not_read) {
  const auto net = [](const std::string& data) { return imported_net(data + end_of_net("data")); };
  const auto images =
      net("layer { name: \"d\" type: \"ImageData\" top: \"data\" top: \"label\" image_data_param { source: \"list.txt\" "
          "batch_size: 5 new_height: 30 new_width: 40 } }");
  EXPECT_THAT(section(images.job, "data"), HasSubstr("shape = [3, 30, 40]\nclasses = 10\nbatch = 5\n"));
  EXPECT_TRUE(noted(images, "the data of layer 'd' (ImageData), 'list.txt', is not read"));
  const auto memory =
      net("layer { name: \"d\" type: \"MemoryData\" top: \"data\" top: \"label\" memory_data_param { batch_size: 5 channels: 2 "
          "height: 7 width: 6 } }");
  EXPECT_THAT(section(memory.job, "data"), HasSubstr("shape = [2, 7, 6]\n"));
  const auto dummy =
      net("layer { name: \"d\" type: \"DummyData\" top: \"data\" top: \"label\" dummy_data_param { num: 9 channels: 2 height: 7 "
          "width: 6 num: 9 channels: 1 height: 1 width: 1 } }");
  EXPECT_THAT(section(dummy.job, "data"), HasSubstr("shape = [2, 7, 6]\nclasses = 10\nbatch = 9\n"));
  const auto shaped =
      net("layer { name: \"d\" type: \"DummyData\" top: \"data\" top: \"label\" dummy_data_param { shape { dim: 3 dim: 12 } shape "
          "{ dim: 3 } } }");
  EXPECT_THAT(section(shaped.job, "data"), HasSubstr("shape = [12]\nclasses = 10\nbatch = 3\n"));
  const auto hdf5 =
      net("layer { name: \"d\" type: \"HDF5Data\" top: \"data\" top: \"label\" hdf5_data_param { source: \"x\" batch_size: 4 } }");
  EXPECT_TRUE(noted(hdf5, "the net has one list of HDF5 files"));
  const auto leveldb =
      net("layer { name: \"d\" type: \"Data\" top: \"data\" top: \"label\" transform_param { mean_file: \"m.binaryproto\" } "
          "data_param { source: \"x\" batch_size: 4 } }");
  EXPECT_TRUE(noted(leveldb, "names a LevelDB"));
  EXPECT_TRUE(noted(leveldb, "the mean image 'm.binaryproto' is not read"));
}

TEST(caffe_import, takes_data_and_labels_of_separate_inputs) {
  const auto m = imported_net(
      "layer { name: \"l\" type: \"Input\" top: \"label\" input_param { shape { dim: 6 } } }"
      "layer { name: \"d\" type: \"Input\" top: \"data\" input_param { shape { dim: 6 dim: 5 } } }" +
      end_of_net("data"));
  EXPECT_EQ(section(m.job, "data"), "source = \"synthetic\"\nshape = [5]\nclasses = 10\nbatch = 6\n");
  ASSERT_TRUE(prepared(m.job));
}

TEST(caffe_import, takes_the_second_of_two_layers_of_data_as_labels_whatever_its_name) {
  const auto m = imported_net(
      "layer { name: \"d\" type: \"DummyData\" top: \"data\" dummy_data_param { shape { dim: 6 dim: 5 } } }"
      "layer { name: \"l\" type: \"DummyData\" top: \"labels\" dummy_data_param { shape { dim: 6 } } }" +
      layer_text("fc", "InnerProduct", "data", "fc", "inner_product_param { num_output: 10 }") +
      "layer { name: \"loss\" type: \"SoftmaxWithLoss\" bottom: \"fc\" bottom: \"labels\" top: \"loss\" }\n");
  EXPECT_THAT(table_of(m.job, "loss"), HasSubstr("inputs = [\"fc\", \"label\"]\n"));
  EXPECT_THAT(section(m.job, "data"), HasSubstr("shape = [5]\n"));
}

// Each Concat doubles the channels: computed anew for each reader, they would take 2^40 steps.
TEST(caffe_import, reads_layers_that_double_their_channels_in_one_pass) {
  auto net = input_layer() + layer_text("c0", "Convolution", "data", "c0", "convolution_param { num_output: 4 kernel_size: 1 }");
  for (int k = 0; k < 70; ++k) {
    const auto from = "c" + std::to_string(k), to = "c" + std::to_string(k + 1);
    net += layer_text(to, "Concat", from, to, "bottom: \"" + from + "\"");
  }
  net += layer_text("s", "Scale", "c70", "s", "scale_param { bias_term: true }");
  EXPECT_THAT(imported_net(net + end_of_net("s")).job, HasSubstr("name = \"c70\"\n"));
}

TEST(caffe_import, reads_a_chain_of_many_layers) {
  constexpr int layers = 9'000;
  auto net = input_layer() + layer_text("r0", "Convolution", "data", "r0", "convolution_param { num_output: 4 kernel_size: 1 }");
  for (int k = 1; k <= layers; ++k) {
    const auto from = "r" + std::to_string(k - 1), to = "r" + std::to_string(k);
    net += layer_text(to, "ReLU", from, to);
  }
  const auto m = imported_net(net + end_of_net("r" + std::to_string(layers)));
  EXPECT_THAT(m.job.size(), testing::Gt(std::size_t{layers}));
}

TEST(caffe_import, uses_the_data_of_one_phase_for_both) {
  const auto m = imported_net(
      "layer { name: \"d\" type: \"MemoryData\" top: \"data\" top: \"label\" include { phase: TRAIN } "
      "memory_data_param { batch_size: 5 channels: 2 height: 7 width: 6 } }" +
      end_of_net("data"));
  EXPECT_TRUE(noted(m, "the net has data for the phase TRAIN only"));
  EXPECT_THAT(table_of(m.job, "fc"), HasSubstr("inputs = [\"data\"]"));
  ASSERT_TRUE(prepared(m.job));
}

TEST(caffe_import, reads_over_the_engines_of_intels_caffe) {
  const auto m = imported_net(
      input_layer() +
      layer_text("c", "Convolution", "data", "c", "convolution_param { num_output: 2 kernel_size: 1 engine: MKL2017 }") +
      layer_text("bn", "BatchNorm", "c", "c", "batch_norm_param { engine: MKL2017 }") + end_of_net("c"));
  EXPECT_THAT(table_of(m.job, "bn"), HasSubstr("affine = false"));
}

std::string solver(const std::string& rest) { return "net: \"net.prototxt\" base_lr: 0.02 max_iter: 900 " + rest; }
imported_model with_solver(const std::string& rest) {
  return imported({{"solver.prototxt", solver(rest)}, {"net.prototxt", input_layer() + end_of_net("data")}});
}

TEST(caffe_import, reads_a_solver) {
  const auto m = with_solver(
      "lr_policy: \"step\" gamma: 0.1 stepsize: 100 momentum: 0.9 weight_decay: 0.0005 test_iter: 7 test_interval: 50 snapshot: "
      "200 "
      "random_seed: 12 clip_gradients: 35 display: 20 solver_mode: CPU snapshot_prefix: \"x\"");
  EXPECT_EQ(
      section(m.job, "train.dynamics"),
      "rule = \"momentum\"\nmomentum = 0.9\nlr = 0.02\ndecay = 5e-04\nschedule = { kind = \"step\", every = 100, factor = 0.1 }\n"
      "clip = { norm = 35.0 }\n");
  EXPECT_EQ(section(m.job, "train.finish"), "steps = 900\n");
  EXPECT_EQ(section(m.job, "eval"), "every = 50\n");
  EXPECT_EQ(section(m.job, "checkpoint"), "every = 200\n");
  EXPECT_THAT(section(m.job, "job"), HasSubstr("seed = 12\n"));
  const auto j = prepared(m.job);
  ASSERT_TRUE(j);
  EXPECT_EQ(j->spec.train.lr, 0.02);
}

TEST(caffe_import, knows_all_policies_and_rules_of_solvers) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"lr_policy: \"fixed\"", "rule = \"sgd\"\nlr = 0.02\n"},
      {"lr_policy: \"exp\" gamma: 0.9", "schedule = { kind = \"exponential\", every = 1, factor = 0.9 }"},
      {"lr_policy: \"inv\" gamma: 0.1 power: 0.75", "schedule = { kind = \"inverse\", gamma = 0.1, power = 0.75 }"},
      {"lr_policy: \"multistep\" gamma: 0.5 stepvalue: 10 stepvalue: 30",
       "schedule = { kind = \"fixed_step\", at = [10, 30], factor = 0.5 }"},
      {"lr_policy: \"poly\" power: 2", "schedule = { kind = \"poly\", steps = 900, power = 2.0 }"},
      {"type: \"Nesterov\" momentum: 0.8", "rule = \"nesterov\"\nmomentum = 0.8\n"},
      {"solver_type: NESTEROV momentum: 0.8", "rule = \"nesterov\"\nmomentum = 0.8\n"},
      {"type: \"AdaGrad\" delta: 1e-6", "rule = \"adagrad\"\neps = 1e-06\n"},
      {"type: \"RMSProp\" rms_decay: 0.9", "rule = \"rmsprop\"\nrho = 0.9\neps = 1e-08\n"},
      {"type: \"AdaDelta\" momentum: 0.95 delta: 1e-6", "rule = \"adadelta\"\nrho = 0.95\neps = 1e-06\n"},
      {"type: \"Adam\" momentum: 0.9", "rule = \"adam\"\nbeta1 = 0.9\nbeta2 = 0.999\neps = 1e-08\n"}};
  for (const auto& [rest, wanted] : cases) {
    const auto m = with_solver(rest);
    EXPECT_THAT(section(m.job, "train.dynamics"), HasSubstr(wanted)) << rest;
    EXPECT_TRUE(prepared(m.job)) << rest;
  }
}

TEST(caffe_import, splits_a_batch_of_iter_size_into_packets) {
  const auto m = with_solver("iter_size: 3");
  EXPECT_THAT(section(m.job, "data"), HasSubstr("batch = 12\n"));
  EXPECT_EQ(section(m.job, "pipeline"), "packets = 3\n");
  EXPECT_TRUE(prepared(m.job));
}

TEST(caffe_import, says_that_dynamics_are_assumed_without_a_solver) {
  EXPECT_THAT(imported_net(input_layer() + end_of_net("data")).job, HasSubstr("# Caffe's net says nothing about training"));
  EXPECT_THAT(with_solver("").job, Not(HasSubstr("says nothing")));
}

}  // namespace
}  // namespace troupe::caffe
