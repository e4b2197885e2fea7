// Nets of Caffe's relatives (NVIDIA's, Intel's, SegNet, SSD, PSPNet, SENet, MobileNet): fields and
// layer types that BVLC's Caffe lacks, and what is left out with a note.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/node/caffe_net_text.hpp"

namespace troupe::caffe {
namespace {

using namespace nets;
using testing::HasSubstr;
using testing::Not;

imported_model with_layer(const std::string& type, const std::string& rest) {
  return imported_net(input_layer() + layer_text("x", type, "data", "x", rest) + end_of_net("x"));
}

TEST(caffe_relatives, ceil_mode_false_rounds_down) {
  const auto pooled = [](const std::string& mode) {
    return table_of(with_layer("Pooling", "pooling_param { kernel_size: 3 stride: 2 " + mode + " }").job, "x");
  };
  EXPECT_THAT(pooled("ceil_mode: false"), HasSubstr("rounding = \"floor\""));
  EXPECT_THAT(pooled("round_mode: FLOOR"), HasSubstr("rounding = \"floor\""));
  EXPECT_THAT(pooled("ceil_mode: false round_mode: FLOOR"), HasSubstr("rounding = \"floor\""));
  EXPECT_THAT(pooled("ceil_mode: true"), Not(HasSubstr("rounding")));
}

TEST(caffe_relatives, fields_without_effect_on_values_are_notes) {
  const auto m =
      imported_net("default_forward_type: FLOAT16\n" + input_layer() +
                   layer_text("x", "Convolution", "data", "x",
                              "engine: \"MKL2017\" quantization_param { bw_params: 8 } convolution_param { num_output: 2 "
                              "kernel_size: 1 conv_algorithm: \"winograd\" }") +
                   end_of_net("x"));
  for (const auto* name : {"default_forward_type", "engine", "quantization_param", "conv_algorithm"})
    EXPECT_TRUE(noted(m, std::string("the field '") + name + "' is left out")) << name;
  const auto read = imported_net(
      "layer { name: \"d\" type: \"Data\" top: \"data\" top: \"label\" transform_param { random_resize_param { min_size: 3 } } "
      "data_param { source: \"s\" batch_size: 4 shuffle: true } }\n" +
      end_of_net("data"));
  EXPECT_TRUE(noted(read, "data_param: 'shuffle' is left out"));
  EXPECT_TRUE(noted(read, "transform_param: 'random_resize_param' is left out"));
}

const std::string lmdb_layer =
    "layer { name: \"d\" type: \"Data\" top: \"data\" top: \"label\" data_param { source: \"s\" batch_size: 4 backend: LMDB } }\n";
std::string scores_layer() { return layer_text("fc", "InnerProduct", "data", "fc", "inner_product_param { num_output: 4 }"); }
std::string compared(const std::string& type, const std::string& rest) {
  return "layer { name: \"" + type + "\" type: \"" + type + "\" bottom: \"fc\" bottom: \"label\" top: \"" + type + "\" " + rest +
         " }\n";
}

TEST(caffe_relatives, ignored_labels_become_those_of_the_data_and_stopped_gradients_are_notes) {
  const auto loss = compared("SoftmaxWithLoss", "propagate_down: false propagate_down: false loss_param { ignore_label: 255 }");
  const auto m = imported_net(input_layer() + scores_layer() + loss);
  EXPECT_THAT(section(m.job, "data"), HasSubstr("ignore_label = 255\n"));
  EXPECT_TRUE(noted(m, "'propagate_down: false' is left out"));
  EXPECT_FALSE(noted(m, "the label 255"));
  ASSERT_TRUE(prepared(m.job));
  EXPECT_THAT(section(imported_net(lmdb_layer + scores_layer() + loss).job, "data"), HasSubstr("ignore_label = 255\n"));
  const auto negative = compared("SoftmaxWithLoss", "loss_param { ignore_label: -1 }");
  EXPECT_THAT(section(imported_net(lmdb_layer + scores_layer() + negative).job, "data"), Not(HasSubstr("ignore_label")));
}

TEST(caffe_relatives, an_ignored_label_counts_in_no_metric_which_is_a_note) {
  const auto loss = compared("SoftmaxWithLoss", "loss_param { ignore_label: 0 }");
  const auto m = imported_net(input_layer() + scores_layer() + loss + compared("Accuracy", ""));
  EXPECT_THAT(section(m.job, "data"), HasSubstr("ignore_label = 0\n"));
  EXPECT_TRUE(noted(m, "the label 0 (`ignore_label` of [data]) counts in no loss and no metric, so not in layer 'Accuracy'"));
  const auto same =
      imported_net(input_layer() + scores_layer() + loss + compared("Accuracy", "accuracy_param { ignore_label: 0 }"));
  EXPECT_FALSE(noted(same, "counts in no loss"));
}

TEST(caffe_relatives, two_ignored_labels_and_those_of_targets_are_refused) {
  EXPECT_THAT(mistakes_of_net(input_layer() + scores_layer() + compared("SoftmaxWithLoss", "loss_param { ignore_label: 255 }") +
                              compared("Accuracy", "accuracy_param { ignore_label: 0 }")),
              HasSubstr("net.prototxt:4:1: layer 'Accuracy' (Accuracy): the label 0 does not count here, and 255 in layer "
                        "'SoftmaxWithLoss' (SoftmaxWithLoss)"));
  EXPECT_THAT(
      mistakes_of_net(input_layer() + scores_layer() + compared("SigmoidCrossEntropyLoss", "loss_param { ignore_label: 1 }")),
      HasSubstr("every target counts in Troupe's sigmoid_cross_entropy: remove 'ignore_label'"));
}

TEST(caffe_relatives, refused_layers_say_what_to_do) {
  const auto why = [](const std::string& type, const std::string& rest = {}) {
    return mistakes_of_net(input_layer() + layer_text("x", type, "data", "x", rest) + end_of_net("x"));
  };
  EXPECT_EQ(
      why("Python", "python_param { module: \"rpn.proposal_layer\" layer: \"ProposalLayer\" }"),
      "net.prototxt:2:1: layer 'x' (Python): Troupe does not run the Python code of a net, here 'ProposalLayer' of the module "
      "'rpn.proposal_layer': remove the layer and the layers that need its output, or write it as a layer of a plugin");
  EXPECT_EQ(
      why("ROIPooling"),
      "net.prototxt:2:1: layer 'x' (ROIPooling): Troupe has no layer like ROIPooling: it reads boxes of an image. Remove it and "
      "the layers that need its output; the layers before it can be imported");
  EXPECT_THAT(why("ContrastiveLoss"), HasSubstr("put another loss in its place, such as SoftmaxWithLoss"));
  EXPECT_THAT(why("MultinomialLogisticLoss"), HasSubstr("replace it and the Softmax before it by SoftmaxWithLoss"));
  EXPECT_THAT(why("LSTM"), HasSubstr("add Troupe's lstm"));
  EXPECT_THAT(why("CPMData"), HasSubstr("replace it by a layer Input"));
  EXPECT_THAT(why("Mystery"), HasSubstr("Troupe has no layer like Mystery: remove it"));
}

TEST(caffe_relatives, the_labels_of_a_data_layer_are_those_that_a_loss_takes) {
  const std::string data = "layer { name: \"d\" type: \"Python\" top: \"data\" top: \"geo\" top: \"sem\" }\n" + scores_layer();
  const auto loss = [](const std::string& name, const std::string& label) {
    return "layer { name: \"" + name + "\" type: \"SoftmaxWithLoss\" bottom: \"fc\" bottom: \"" + label + "\" top: \"" + name +
           "\" }\n";
  };
  const auto m = imported_net(data + loss("l", "sem"));
  EXPECT_THAT(table_of(m.job, "l"), HasSubstr("inputs = [\"fc\", \"label\"]"));
  EXPECT_TRUE(noted(m, "layer 'd' (Python): Troupe's data has one tensor and its labels; 'geo' is left out"));
  const auto both = imported_net(data + loss("g", "geo") + loss("s", "sem"));
  EXPECT_THAT(table_of(both.job, "g"), HasSubstr("inputs = [\"fc\", \"label\"]"));
  EXPECT_EQ(table_of(both.job, "s"), "none");
  EXPECT_TRUE(noted(both, "'sem' is left out with the losses that compare with it"));
  EXPECT_TRUE(noted(both, "layer 's' (SoftmaxWithLoss): a job has one tensor of data and its labels"));
  EXPECT_THAT(
      mistakes_of_net(data + layer_text("r", "ReLU", "geo", "r") + loss("l", "sem")),
      HasSubstr("net.prototxt:1:1: layer 'd' (Python): Troupe's data has one tensor and its labels; layer 'r' (ReLU) reads a "
                "further top, 'geo': remove that layer"));
}

TEST(caffe_relatives, selu_is_an_elu_and_a_factor) {
  const auto m = with_layer("SeLu", "");
  EXPECT_THAT(table_of(m.job, "x_elu"), HasSubstr("type = \"elu\"\ninputs = [\"data\"]\nalpha = 1.6732632423543772\n"));
  EXPECT_THAT(table_of(m.job, "x"), HasSubstr("type = \"eltwise\"\ninputs = [\"x_elu\"]\ncoeffs = [1.0507009873554805]\n"));
  ASSERT_TRUE(prepared(m.job));
}

TEST(caffe_relatives, hdf5_data_become_the_source_of_these_files) {
  const auto data = [](const char* list, const char* phase) {
    return std::string("layer { name: \"d\" type: \"HDF5Data\" top: \"data\" top: \"label\" include { phase: ") + phase +
           " } hdf5_data_param { source: \"" + list + "\" batch_size: 10 shuffle: true } }\n";
  };
  const auto m = imported_net(data("train.txt", "TRAIN") + data("test.txt", "TEST") + end_of_net("data"));
  EXPECT_EQ(section(m.job, "data"),
            "source = \"hdf5\"\npath = \"train.txt\"\ntest_path = \"test.txt\"\nlabel_kind = \"classes\"\nbatch = 10\n");
}

TEST(caffe_relatives, hdf5_data_with_one_top_have_no_labels) {
  const auto m = imported_net(
      "layer { name: \"d\" type: \"HDF5Data\" top: \"data\" hdf5_data_param { source: \"train.txt\" batch_size: 10 } }\n" +
      layer_text("code", "InnerProduct", "data", "code", "inner_product_param { num_output: 4 }") +
      "layer { name: \"loss\" type: \"EuclideanLoss\" bottom: \"code\" bottom: \"data\" top: \"loss\" }\n");
  EXPECT_EQ(section(m.job, "data"), "source = \"hdf5\"\npath = \"train.txt\"\nlabels = \"\"\nbatch = 10\n");
}

TEST(caffe_relatives, a_mark_of_utf8_is_skipped_and_other_bytes_are_readable) {
  EXPECT_THAT(imported_net("\xef\xbb\xbf" + input_layer() + end_of_net("data")).job, HasSubstr("[data]"));
  EXPECT_EQ(mistakes_of_net("\xff\xfel\0"), "net.prototxt:1:1: the text is in UTF-16: save the file as UTF-8");
  EXPECT_EQ(mistakes_of_net("name: \xe2\x80\x9cnet\xe2\x80\x9d"),
            "net.prototxt:1:7: expected a value of 'name', not '\xe2\x80\x9c'");
  EXPECT_THAT(mistakes_of_net("\x80"), HasSubstr("'\\x80'"));
}

TEST(caffe_relatives, squeeze_and_excitation_is_a_channel_scale) {
  const std::string gate = input_layer() +
                           layer_text("p", "Pooling", "data", "p", "pooling_param { pool: AVE global_pooling: true }") +
                           layer_text("g", "Sigmoid", "p", "g");
  const auto axpy = imported_net(
      gate + "layer { name: \"a\" type: \"Axpy\" bottom: \"g\" bottom: \"data\" bottom: \"data\" top: \"a\" }\n" + end_of_net("a"));
  EXPECT_EQ(table_of(axpy.job, "a_scaled"), "name = \"a_scaled\"\ntype = \"channel_scale\"\ninputs = [\"data\", \"g\"]\n");
  EXPECT_EQ(table_of(axpy.job, "a"), "name = \"a\"\ntype = \"eltwise\"\ninputs = [\"a_scaled\", \"data\"]\n");
  ASSERT_TRUE(prepared(axpy.job));
  const auto scale = imported_net(
      gate + "layer { name: \"s\" type: \"Scale\" bottom: \"data\" bottom: \"g\" top: \"s\" scale_param { axis: 0 } }\n" +
      end_of_net("s"));
  EXPECT_EQ(table_of(scale.job, "s"), "name = \"s\"\ntype = \"channel_scale\"\ninputs = [\"data\", \"g\"]\n");
  ASSERT_TRUE(prepared(scale.job));
}

TEST(caffe_relatives, layer_types_of_relatives_have_their_counterparts) {
  const std::vector<std::tuple<std::string, std::string, std::string>> cases{
      {"DepthwiseConvolution", "convolution_param { num_output: 3 group: 3 kernel_size: 3 }", "type = \"convolution\""},
      {"ConvolutionDepthwise", "convolution_param { num_output: 3 kernel_size: 3 }", "groups = 3"},
      {"ReLU6", "", "type = \"relu6\""},
      {"Swish", "", "type = \"silu\""},
      {"Power", "power_param { scale: 0.5 }", "coeffs = [0.5]"},
      {"Power", "power_param { shift: 3 }", "bias_filler = { kind = \"constant\", value = 3.0 }"},
      {"Permute", "permute_param { order: 0 order: 2 order: 3 order: 1 }", "order = [2, 3, 1]"},
      {"Interp", "interp_param { height: 15 width: 15 }", "align_corners = true"},
      {"Interp", "interp_param { zoom_factor: 3 }", "height = 22\nwidth = 22"},
      {"Interp", "interp_param { shrink_factor: 2 zoom_factor: 3 height: 7 width: 7 }", "height = 10\nwidth = 10"},
      {"ShuffleChannel", "shuffle_channel_param { group: 3 }", "shape = [3, 8, 8]"},
      {"Reorg", "reorg_param { stride: 1 }", "shape = [3, 8, 8]"},
      {"Upsample", "upsample_param { scale: 2 }", "factor = 2"},
      {"BN", "bn_param { slope_filler { value: 1 } eps: 0.001 }", "epsilon = 0.001"},
      {"BN", "bn_param { bn_mode: INFERENCE }", "type = \"scale\""},
      {"BatchNorm", "batch_norm_param { scale_bias: true }", "type = \"batch_norm\""},
      {"Normalize", "norm_param { across_spatial: false scale_filler { value: 20 } channel_shared: false }",
       "inputs = [\"x_unit\"]"},
      {"Deconvolution",
       "convolution_param { num_output: 3 group: 3 kernel_size: 4 stride: 2 pad: 1 weight_filler { type: \"bilinear\" } }",
       "kind = \"bilinear\""},
      {"Concat", "concat_param { axis: -3 }", "type = \"concat\""}};
  for (const auto& [type, rest, part] : cases) {
    const auto m = with_layer(type, rest);
    EXPECT_THAT(table_of(m.job, "x"), HasSubstr(part)) << type;
    EXPECT_TRUE(prepared(m.job)) << type;
  }
}

const std::string pool_with_mask =
    "layer { name: \"p\" type: \"Pooling\" bottom: \"data\" top: \"p\" top: \"mask\" pooling_param { kernel_size: 2 stride: 2 } "
    "}\n";
std::string upsample_layer(const std::string& bottoms, const std::string& param) {
  return "layer { name: \"u\" type: \"Upsample\" " + bottoms + " top: \"u\" upsample_param { " + param + " } }\n";
}

TEST(caffe_relatives, upsample_by_the_positions_of_maxima_is_an_unpool) {
  const auto m = imported_net(input_layer() + pool_with_mask + layer_text("r", "ReLU", "p", "p") +
                              upsample_layer("bottom: \"p\" bottom: \"mask\"", "scale: 2") + end_of_net("u"));
  EXPECT_EQ(table_of(m.job, "u"), "name = \"u\"\ntype = \"unpool\"\ninputs = [\"r\", \"data\"]\nkernel = 2\nstride = 2\n");
  ASSERT_TRUE(prepared(m.job));
}

TEST(caffe_relatives, positions_of_maxima_that_unpool_cannot_use_are_refused) {
  const auto why = [](const std::string& rest) { return mistakes_of_net(input_layer() + rest); };
  EXPECT_THAT(why(pool_with_mask + upsample_layer("bottom: \"p\" bottom: \"mask\"", "scale: 3") + end_of_net("u")),
              HasSubstr("net.prototxt:3:1: layer 'u' (Upsample): its scale is not the stride of the Pooling"));
  EXPECT_THAT(why(upsample_layer("bottom: \"data\" bottom: \"data\"", "scale: 2") + end_of_net("u")),
              HasSubstr("its second bottom must be the positions of the maxima"));
  EXPECT_THAT(why(pool_with_mask + layer_text("r", "ReLU", "mask", "r") + end_of_net("r")),
              HasSubstr("layer 'r' (ReLU): its bottom 'mask' holds the positions of maxima"));
  const auto pool = [&](const std::string& param) {
    return why("layer { name: \"p\" type: \"Pooling\" bottom: \"data\" top: \"p\" top: \"mask\" pooling_param { " + param +
               " } }\n");
  };
  EXPECT_THAT(pool("kernel_size: 3 stride: 2"), HasSubstr("the windows must not overlap"));
  EXPECT_THAT(pool("pool: AVE kernel_size: 2 stride: 2"), HasSubstr("which an average has not"));
}

TEST(caffe_relatives, layers_that_need_extents_are_refused_without_them) {
  const std::string data = "layer { name: \"d\" type: \"Python\" top: \"data\" top: \"label\" }\n";
  EXPECT_THAT(mistakes_of_net(data + layer_text("x", "ShuffleChannel", "data", "x", "shuffle_channel_param { group: 3 }") +
                              end_of_net("x")),
              HasSubstr("net.prototxt:2:1: layer 'x' (ShuffleChannel): the extents of its bottom must be known"));
  EXPECT_THAT(mistakes_of_net(input_layer() + layer_text("x", "Reorg", "data", "x", "reorg_param { stride: 2 }") + end_of_net("x")),
              HasSubstr("'stride' must divide height and width, and its square the channels, of [3, 8, 8]"));
}

TEST(caffe_relatives, layers_on_results_are_left_out_with_their_readers) {
  const auto m = imported_net(
      input_layer() + layer_text("c", "Convolution", "data", "c", "convolution_param { num_output: 4 kernel_size: 8 }") +
      "layer { name: \"prior\" type: \"PriorBox\" bottom: \"c\" bottom: \"data\" top: \"prior\" prior_box_param { min_size: 3 } }\n"
      "layer { name: \"out\" type: \"DetectionOutput\" bottom: \"c\" bottom: \"prior\" top: \"out\" }\n" +
      layer_text("after", "ReLU", "out", "after"));
  EXPECT_TRUE(noted(m, "layer 'prior' (PriorBox), layer 'out' (DetectionOutput): Troupe has no such layers"));
  EXPECT_EQ(table_of(m.job, "after"), "none");
  EXPECT_THAT(table_of(m.job, "c"), HasSubstr("outputs = 4"));
}

TEST(caffe_relatives, scores_of_every_pixel_become_rows) {
  const auto m = imported_net(input_layer() +
                              layer_text("c", "Convolution", "data", "c", "convolution_param { num_output: 4 kernel_size: 1 }") +
                              "layer { name: \"l\" type: \"SoftmaxWithLoss\" bottom: \"c\" bottom: \"label\" top: \"l\" }");
  EXPECT_EQ(table_of(m.job, "c_last"), "name = \"c_last\"\ntype = \"permute\"\ninputs = [\"c\"]\norder = [2, 3, 1]\n");
  EXPECT_EQ(table_of(m.job, "c_pixels"), "name = \"c_pixels\"\ntype = \"reshape\"\ninputs = [\"c_last\"]\nshape = [-1, 4]\n");
  EXPECT_THAT(table_of(m.job, "l"), HasSubstr("inputs = [\"c_pixels\", \"label\"]"));
}

TEST(caffe_relatives, data_of_ssd_have_the_extents_that_images_are_resized_to) {
  const auto m = imported_net(
      "layer { name: \"d\" type: \"AnnotatedData\" top: \"data\" top: \"label\" transform_param { resize_param { prob: 1 height: "
      "30 width: 20 } } data_param { source: \"s\" batch_size: 4 } annotated_data_param { label_map_file: \"f\" } }\n" +
      end_of_net("data"));
  EXPECT_THAT(section(m.job, "data"), HasSubstr("shape = [3, 30, 20]"));
  EXPECT_THAT(section(m.job, "data"), HasSubstr("batch = 4"));
}

TEST(caffe_relatives, of_several_sizes_of_ssd_the_first_counts) {
  const auto m = imported_net(
      "layer { name: \"d\" type: \"AnnotatedData\" top: \"data\" top: \"label\" transform_param { resize_param { height: 30 width: "
      "20 } "
      "resize_param { height: 60 width: 40 } } data_param { source: \"s\" batch_size: 4 } }\n" +
      end_of_net("data"));
  EXPECT_THAT(section(m.job, "data"), HasSubstr("shape = [3, 30, 20]"));
  EXPECT_TRUE(noted(m, "of 2 resize_param the first counts"));
}

TEST(caffe_relatives, a_solver_may_have_its_net_inside) {
  const auto net = input_layer() + end_of_net("data");
  const auto m =
      imported({{"solver.prototxt", "base_lr: 0.5 max_iter: 7\ntrain_net_param {\n" + net + "}\ntest_net_param {\n" + net + "}"}});
  EXPECT_THAT(table_of(m.job, "fc"), HasSubstr("outputs = 10"));
  EXPECT_THAT(m.job, HasSubstr("lr = 0.5"));
  EXPECT_TRUE(noted(m, "'test_net_param' is left out"));
  // A net of its own file comes first.
  const auto own =
      imported({{"solver.prototxt", "base_lr: 0.5 net_param {\n" + net + "}"}, {"net.prototxt", "name: \"own\"\n" + net}});
  EXPECT_THAT(own.job, HasSubstr("name = \"own\""));
  EXPECT_THAT(mistakes({{"solver.prototxt", "base_lr: 0.5\nnet_param {\n" + layer_text("x", "Mystery", "data", "x") + "}"}}),
              HasSubstr("solver.prototxt:3:1: layer 'x' (Mystery)"));
}

TEST(caffe_relatives, a_net_that_is_only_measured_gets_a_loss_on_what_is_measured) {
  const auto accuracy = [](const std::string& bottom) {
    return "layer { name: \"a\" type: \"Accuracy\" bottom: \"" + bottom + "\" bottom: \"label\" top: \"a\" }\n";
  };
  const auto m = imported_net(input_layer() + scores_layer() + accuracy("fc"));
  EXPECT_THAT(table_of(m.job, "loss"), HasSubstr("type = \"softmax_loss\"\ninputs = [\"fc\", \"label\"]"));
  EXPECT_EQ(table_of(m.job, "accuracy"), "none");
  ASSERT_TRUE(prepared(m.job));
  const auto probable =
      imported_net(input_layer() + scores_layer() + layer_text("prob", "Softmax", "fc", "prob") + accuracy("prob"));
  EXPECT_THAT(table_of(probable.job, "loss"), HasSubstr("inputs = [\"fc\", \"label\"]"));
  EXPECT_THAT(table_of(probable.job, "a"), HasSubstr("inputs = [\"prob\", \"label\"]"));
  ASSERT_TRUE(prepared(probable.job));
}

TEST(caffe_relatives, accuracies_by_class_are_left_out_with_a_note) {
  const auto m =
      imported_net(input_layer() + scores_layer() +
                   "layer { name: \"a\" type: \"Accuracy\" bottom: \"fc\" bottom: \"label\" top: \"a\" top: \"by_class\" }\n");
  EXPECT_THAT(table_of(m.job, "a"), HasSubstr("type = \"accuracy\""));
  EXPECT_TRUE(noted(m, "layer 'a' (Accuracy): its second top, the accuracies by class, is left out"));
}

TEST(caffe_relatives, a_net_of_data_and_results_alone_is_refused) {
  EXPECT_EQ(mistakes_of_net(input_layer()), "net.prototxt:1:1: the net has no layer that a job can train: it has data only");
  EXPECT_THAT(mistakes_of_net(input_layer() + layer_text("a", "ArgMax", "data", "a")),
              HasSubstr("what is left out leaves nothing (layer 'a' (ArgMax))"));
}

TEST(caffe_relatives, a_layer_python_without_bottoms_is_data) {
  const auto m = imported_net(
      "layer { name: \"d\" type: \"Python\" top: \"data\" top: \"label\" python_param { module: \"m\" layer: \"l\" } }\n" +
      end_of_net("data"));
  EXPECT_THAT(section(m.job, "data"), HasSubstr("source = \"synthetic\""));
  EXPECT_TRUE(noted(m, "layer 'd' (Python): python_param: 'module', 'layer' are left out"));
}

}  // namespace
}  // namespace troupe::caffe
