// Prototxt of Caffe con Troll, which splits layers over GPUs, and of multi-node Caffe
// (BVLC/caffe#3441), which places layers on nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/node/caffe_net_text.hpp"

namespace troupe::caffe {
namespace {

using namespace nets;
using testing::HasSubstr;
using testing::Not;

std::string net_with(const std::string& conv, const std::string& fc, int batch = 10) {
  return input_layer("dim: " + std::to_string(batch) + " dim: 3 dim: 8 dim: 8") +
         layer_text("conv", "Convolution", "data", "conv", conv + " convolution_param { num_output: 4 kernel_size: 3 }") +
         layer_text("relu", "ReLU", "conv", "conv", conv) +
         layer_text("fc", "InnerProduct", "conv", "fc", fc + " inner_product_param { num_output: 8 }") +
         "layer { name: \"loss\" type: \"SoftmaxWithLoss\" bottom: \"fc\" bottom: \"label\" top: \"loss\" }\n";
}

TEST(caffe_con_troll, splits_a_batch_over_a_gpu_and_the_cpu) {
  const auto m = imported_net(net_with("gpu_2_batch_proportion: 0.6", ""));
  EXPECT_THAT(section(m.job, "job"), HasSubstr("devices = [\"cpu:0\", \"gpu:2\"]\n"));
  EXPECT_THAT(table_of(m.job, "conv"),
              HasSubstr("partition = \"batch\"\nplace = [\"local/gpu:2\", \"local/cpu:0\"]\nfraction = [0.6, 0.4]\n"));
  EXPECT_THAT(table_of(m.job, "relu"), HasSubstr("fraction = [0.6, 0.4]\n"));
  EXPECT_THAT(table_of(m.job, "fc"), HasSubstr("place = \"local/cpu:0\"\n")) << "the default is the CPU";
  EXPECT_EQ(section(m.job, "pipeline"), "packets = 5\n") << "3 and 2 packets of 2 examples";
  const auto j = prepared(m.job, {"cpu:0", "gpu:2"});
  ASSERT_TRUE(j);
  EXPECT_EQ(j->spec.layers[0].fraction, (std::vector<double>{0.6, 0.4}));
}

TEST(caffe_con_troll, splits_a_batch_equally_and_a_layer_by_its_outputs) {
  const std::string quarter =
      "gpu_0_batch_proportion: 0.25 gpu_1_batch_proportion: 0.25 gpu_2_batch_proportion: 0.25 gpu_3_batch_proportion: 0.25";
  const auto m = imported_net(net_with(quarter, "gpu_0_depth_proportion: 0.5 gpu_1_depth_proportion: 0.5", 16));
  EXPECT_THAT(table_of(m.job, "conv"),
              HasSubstr("partition = \"batch\"\nplace = [\"local/gpu:0\", \"local/gpu:1\", \"local/gpu:2\", \"local/gpu:3\"]\n"));
  EXPECT_THAT(table_of(m.job, "conv"), Not(HasSubstr("fraction")));
  EXPECT_THAT(table_of(m.job, "fc"), HasSubstr("partition = \"feature\"\nplace = [\"local/gpu:0\", \"local/gpu:1\"]\n"));
  EXPECT_EQ(section(m.job, "pipeline"), "packets = 4\n");
  const auto j = prepared(m.job, {"cpu:0", "gpu:0", "gpu:1", "gpu:2", "gpu:3"});
  ASSERT_TRUE(j);
}

TEST(caffe_con_troll, puts_a_whole_layer_on_a_gpu) {
  const auto m = imported_net(net_with("gpu_1_batch_proportion: 1.0", "gpu_1_batch_proportion: 0"));
  EXPECT_THAT(table_of(m.job, "conv"), HasSubstr("place = \"local/gpu:1\"\n"));
  EXPECT_THAT(table_of(m.job, "fc"), HasSubstr("place = \"local/cpu:0\"\n"));
  EXPECT_EQ(section(m.job, "pipeline"), "none");
}

TEST(caffe_con_troll, rounds_shares_to_packets_if_none_fit) {
  const auto m = imported_net(net_with("gpu_0_batch_proportion: 0.6", "", 256));
  EXPECT_EQ(section(m.job, "pipeline"), "packets = 64\n");
  EXPECT_TRUE(noted(m, "rounded to packets"));
}

TEST(caffe_con_troll, keeps_the_packets_of_iter_size) {
  const auto m =
      imported({{"net.prototxt", net_with("gpu_0_batch_proportion: 0.5", "")}, {"s.prototxt", "base_lr: 1 iter_size: 4"}});
  EXPECT_EQ(section(m.job, "pipeline"), "packets = 4\n");
  ASSERT_TRUE(prepared(m.job, {"cpu:0", "gpu:0"}));
}

TEST(caffe_con_troll, refuses_proportions_beyond_one) {
  EXPECT_EQ(mistakes_of_net(net_with("gpu_0_batch_proportion: 1.5", "")),
            "net.prototxt:2:69: layer 'conv' (Convolution): 'gpu_0_batch_proportion' is between 0 and 1\n"
            "net.prototxt:2:1: layer 'conv' (Convolution): its gpu_*_batch_proportion add up to 1.5, more than 1\n"
            "net.prototxt:3:62: layer 'relu' (ReLU): 'gpu_0_batch_proportion' is between 0 and 1\n"
            "net.prototxt:3:1: layer 'relu' (ReLU): its gpu_*_batch_proportion add up to 1.5, more than 1");
  EXPECT_THAT(mistakes_of_net(net_with("", "gpu_0_batch_proportion: 0.5 gpu_1_depth_proportion: 0.5")),
              HasSubstr("it has proportions of the batch and of the depth"));
  EXPECT_THAT(mistakes_of_net(net_with("gpu_4_batch_proportion: 1", "")),
              HasSubstr("net.prototxt:2:69: layer 'conv' (Convolution): Troupe does not know the field 'gpu_4_batch_proportion'"));
}

std::string node_text(const std::string& start, const std::string& end, int position, int splits = 1, int staleness = 0) {
  return "start_layer: \"" + start + "\" end_layers: \"" + end + "\" num_splits: " + std::to_string(splits) +
         " node_info { router_port: 2003 pub_port: 2004 position: " + std::to_string(position) +
         " staleness: " + std::to_string(staleness) + " }";
}

TEST(multi_node_caffe, places_layers_on_fc_nodes) {
  const auto m = imported({{"net.prototxt", net_with("", "")},
                           {"nodes/ps.prototxt", node_text("data", "relu", 0, 1, 2)},
                           {"nodes/fc.prototxt", node_text("fc", "loss", 0)}});
  EXPECT_THAT(table_of(m.job, "fc"), HasSubstr("place = \"fc\"\n"));
  EXPECT_THAT(table_of(m.job, "conv"), Not(HasSubstr("place")));
  EXPECT_THAT(table_of(m.job, "loss"), Not(HasSubstr("place"))) << "it follows its input";
  EXPECT_EQ(section(m.job, "train"), "none");
  EXPECT_TRUE(noted(m, "the staleness 2 is left out"));
  node_spec fc, worker;
  fc.name = "fc", fc.roles = {"server"};
  worker.name = "conv1";
  const auto made = prepare_text({m.job, "job.toml", {}, {}}, all_tables(), {worker, fc});
  EXPECT_EQ(test::error_text(made), "");
}

TEST(multi_node_caffe, trains_with_staleness_if_no_layer_is_placed) {
  const auto m = imported({{"net.prototxt", net_with("", "")}, {"ps_full.prototxt", node_text("data", "loss", 0, 1, 2)}});
  EXPECT_EQ(section(m.job, "train"), "sync = { mode = \"ssp\", staleness = 2 }\n");
  ASSERT_TRUE(prepared(m.job));
}

TEST(multi_node_caffe, splits_layers_over_nodes_by_their_outputs) {
  const auto m = imported({{"net.prototxt", net_with("", "")},
                           {"fc_b.prototxt", node_text("fc", "loss", 1, 2)},
                           {"fc_a.prototxt", node_text("fc", "loss", 0, 2)}});
  EXPECT_THAT(table_of(m.job, "fc"), HasSubstr("partition = \"feature\"\nplace = [\"fc_a\", \"fc_b\"]\n"));
}

TEST(multi_node_caffe, lets_the_last_start_before_a_layer_decide) {
  const auto net = input_layer() + layer_text("a", "ReLU", "data", "a") + layer_text("b", "ReLU", "a", "b") +
                   layer_text("c", "ReLU", "b", "c") + end_of_net("c");
  const auto m =
      imported({{"net.prototxt", net}, {"n2.prototxt", node_text("b", "loss", 0)}, {"n1.prototxt", node_text("fc", "loss", 0)}});
  EXPECT_THAT(table_of(m.job, "a"), Not(HasSubstr("place")));
  EXPECT_THAT(table_of(m.job, "b"), HasSubstr("place = \"n2\"\n"));
  EXPECT_THAT(table_of(m.job, "c"), HasSubstr("place = \"n2\"\n"));
  EXPECT_THAT(table_of(m.job, "fc"), HasSubstr("place = \"n1\"\n"));
}

TEST(multi_node_caffe, names_a_start_layer_that_is_not_there) {
  EXPECT_EQ(mistakes({{"net.prototxt", net_with("", "")}, {"fc.prototxt", node_text("fc6", "loss", 0)}}),
            "net.prototxt: there is no layer 'fc6', with which the node 'fc' starts");
  EXPECT_EQ(mistakes({{"net.prototxt", net_with("", "")}, {"fc.prototxt", "start_layer: \"fc\"\ncolour: 1"}}),
            "fc.prototxt:2:1: Troupe does not know the field 'colour'");
}

}  // namespace
}  // namespace troupe::caffe
