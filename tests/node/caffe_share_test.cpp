// Parameters that layers share, in nets of Caffe (param { name }): exported, imported, and refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "runtime/node/models/caffe/export_net.hpp"
#include "tests/node/caffe_net_text.hpp"

namespace troupe::caffe {
namespace {

using namespace nets;
using testing::HasSubstr;

named_tensors counted_weights(const model_graph& g) {
  named_tensors all;
  float next = 1;
  for (const auto& p : g.params) {
    auto values = std::make_shared<std::vector<float>>(static_cast<std::size_t>(p.spec.dims.count()));
    for (auto& v : *values) v = next++;
    const auto* data = values->data();
    all.emplace_back(p.full_name, tensor::adopt(std::move(values), data, p.spec.dims, dtype::f32));
  }
  return all;
}

std::string params_of(const model_graph& g) {
  std::string s;
  for (const auto& p : g.params)
    s += p.full_name + " " + p.spec.dims.to_string() + " " + std::to_string(p.spec.lr_multiplier) + "\n";
  return s;
}

const std::string three_convolutions = R"([data]
source = "synthetic"
shape = [2, 6, 6]
batch = 4
classes = 3
[[layer]]
name = "one"
type = "convolution"
inputs = ["data"]
outputs = 2
kernel = 3
pad = 1
lr_scale = [1.0, 2.0]
[[layer]]
name = "two"
type = "convolution"
inputs = ["one"]
outputs = 2
kernel = 3
pad = 1
share = "one"
[[layer]]
name = "three"
type = "convolution"
inputs = ["two"]
outputs = 2
kernel = 3
pad = 1
share = "one.weight"
lr_scale = [3.0]
[[layer]]
name = "score"
type = "linear"
inputs = ["three"]
outputs = 3
[[layer]]
name = "loss"
type = "softmax_loss"
inputs = ["score", "label"]
[train]
finish = { steps = 1 }
)";

TEST(caffe_share, shared_parameters_stay_shared) {
  const auto before = prepared(three_convolutions);
  ASSERT_TRUE(before);
  const auto weights = counted_weights(before->graph);
  const auto files = export_net(*before, weights, {});
  ASSERT_TRUE(files) << test::error_text(files);
  const auto& net = files->files[0].bytes;
  EXPECT_THAT(net, HasSubstr("name: \"one.weight\""));
  const auto both = imported({{"n.prototxt", net}, {"n.caffemodel", files->files[1].bytes}});
  EXPECT_THAT(table_of(both.job, "two"), HasSubstr("share = \"one\"\n"));
  EXPECT_THAT(table_of(both.job, "three"), HasSubstr("share = \"one.weight\"\n"));
  const auto after = prepared(both.job);
  ASSERT_TRUE(after) << both.job;
  EXPECT_EQ(params_of(after->graph), params_of(before->graph)) << net;
  ASSERT_EQ(both.weights.size(), weights.size());
  for (std::size_t p = 0; p < weights.size(); ++p) {
    EXPECT_EQ(both.weights[p].first, weights[p].first);
    EXPECT_EQ(std::memcmp(both.weights[p].second.raw(), weights[p].second.raw(), weights[p].second.bytes()), 0) << weights[p].first;
  }
}

TEST(caffe_share, parameters_of_other_places_are_refused) {
  const auto net = [](const std::string& second) {
    return "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 4 dim: 2 dim: 6 dim: 6 } } }\n"
           "layer { name: 'one' type: 'Convolution' bottom: 'data' top: 'one' param { name: 'w' } param { name: 'b' }\n"
           "  convolution_param { num_output: 2 kernel_size: 3 pad: 1 } }\n"
           "layer { name: 'two' type: 'Convolution' bottom: 'one' top: 'two' " +
           second + " convolution_param { num_output: 2 kernel_size: 3 pad: 1 } }\n";
  };
  EXPECT_THAT(mistakes_of_net(net("param { name: 'b' }")),
              HasSubstr("shares parameters with several layers, or one with another place"));
}

TEST(caffe_import, cuts_names_that_no_job_may_have_and_says_so) {
  const auto m = imported_net("name: \"net\\033[2J\"\n" + input_layer() + layer_text(std::string(300, 'a'), "ReLU", "data", "x") +
                              layer_text(std::string(300, 'a') + "2", "ReLU", "x", "y") + end_of_net("y"));
  EXPECT_THAT(table_of(m.job, std::string(180, 'a') + "_2"), HasSubstr("inputs = [\"" + std::string(180, 'a') + "\"]"));
  EXPECT_THAT(m.job, HasSubstr("name = \"net\\\\x1b[2J\"\n"));
  EXPECT_TRUE(noted(m, "the job is called 'net\\x1b[2J': the name 'net\\x1b[2J' has the unprintable character \\x1b"));
  EXPECT_TRUE(noted(m, "layers have other names in the job: 'aaa"));
  ASSERT_TRUE(prepared(m.job));
}

}  // namespace
}  // namespace troupe::caffe
