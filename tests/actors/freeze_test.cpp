// Tests of `freeze`: what the patterns match keeps every bit, in all modes and with all rules, and
// the rest trains as if the frozen layers had the learning rate 0.
#include "runtime/model/freeze.hpp"

#include <gmock/gmock.h>

#include <cstring>
#include <set>

#include "runtime/node/config/prepare_text.hpp"
#include "tests/actors/embedded_support.hpp"

namespace troupe {
namespace {

using namespace testing_embedded;
using ::testing::HasSubstr;
using names = std::vector<std::string>;
using named = std::vector<std::pair<std::string, tensor>>;

// A net with running statistics. The biases begin as -0, whose sign an update by nothing loses.
constexpr const char* net = R"(
[job]
name = "frozen"
seed = 7
[data]
source = "synthetic"
shape = [1, 12, 12]
classes = 5
examples = 600
test_examples = 90
batch = 24
[[layer]]
name = "conv1"
type = "convolution"
inputs = ["data"]
outputs = 6
kernel = 3
bias_filler = { kind = "constant", value = -0.0 }
[[layer]]
name = "bn1"
type = "batch_norm"
inputs = ["conv1"]
[[layer]]
name = "conv2"
type = "convolution"
inputs = ["bn1"]
outputs = 6
kernel = 3
[[layer]]
name = "ip1"
type = "linear"
inputs = ["conv2"]
outputs = 5
[[layer]]
name = "loss"
type = "softmax_loss"
inputs = ["ip1", "label"]
[train]
dynamics = { rule = "momentum", lr = 0.05, momentum = 0.9, decay = 0.01 }
finish = { steps = 6 }
[pipeline]
packets = 4
)";

// The names of the tensors that differ in any bit.
std::set<std::string> changed(const named& a, const named& b) {
  std::set<std::string> all;
  EXPECT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i)
    if (std::memcmp(a[i].second.data<float>(), b[i].second.data<float>(), a[i].second.bytes()) != 0) all.insert(a[i].first);
  return all;
}

std::set<std::string> changed_by(const overrides& set) {
  const auto j = job_of(net, set);
  if (!j) return {"the job is wrong"};
  const auto before = plain_loop(job_of(net, {}), make_cpu_device()).weights();  // on the host, whatever the device
  const auto r = embedded(j);
  EXPECT_TRUE(r.ok) << r.where << ": " << r.error;
  return r.ok ? changed(before, r.weights) : std::set<std::string>{r.error};
}

const std::set<std::string> rest{"conv2.weight", "conv2.bias", "ip1.weight", "ip1.bias"};

std::string mistake_in(const overrides& set) {
  const auto j = prepare_text({net, "job.toml", set}, std::make_shared<const tables>(stock_tables()));
  return j ? "" : j.error().front().to_string();
}

// The mode with two workers, in the first way that it supports.
overrides with_two_workers(const std::string& mode) {
  overrides set{"train.freeze=[\"conv1\",\"bn*\"]", "train.sync={mode=\"" + mode + "\"}"};
  if (mode == "eamsgd") set.emplace_back("train.dynamics.rule=\"nesterov\"");
  auto often = set;
  often.emplace_back("train.sync.when={kind=\"every\",steps=2}");
  for (auto way : {often, set}) {
    way.emplace_back("topology.workers_per_group=2");
    if (mistake_in(way).empty()) return way;
    way.back() = "topology.worker_groups=2";
    if (mistake_in(way).empty()) return way;
    way.emplace_back("topology.server_groups=2");
    if (mistake_in(way).empty()) return way;
  }
  ADD_FAILURE() << mistake_in(set);
  return set;
}

TEST(freeze, keeps_every_bit_with_all_modes) {
  for (const auto& mode : stock_tables().modes.names()) {
    SCOPED_TRACE(mode);
    EXPECT_EQ(changed_by(with_two_workers(mode)), rest);
  }
}

TEST(freeze, keeps_every_bit_with_all_rules_and_clips) {
  for (const auto& rule : stock_tables().rules.names())
    for (const char* clip : {"", ",clip={norm=0.1}", ",clip={value=0.1}"}) {
      SCOPED_TRACE(rule + clip);
      EXPECT_EQ(changed_by(
                    {"train.freeze=[\"conv1\",\"bn1.*\"]", "train.dynamics={rule=\"" + rule + "\",lr=0.01,decay=0.1" + clip + "}"}),
                rest);
    }
}

TEST(freeze, keeps_every_bit_with_codecs_shards_and_skipped_steps) {
  for (const char* more :
       {"train.exchange={reducer=\"tree\"}", "train.exchange={reducer=\"server\",compress=\"topk\"}", "topology.max_block=256",
        "topology.replicas=1", "train.max_skipped=3", "job.precision=\"bf16\"", "pipeline.fuse=\"auto\""}) {
    SCOPED_TRACE(more);
    EXPECT_EQ(
        changed_by({"train.freeze=[\"conv1\",\"bn1.*\"]", more, "topology.workers_per_group=2", "topology.servers_per_group=2"}),
        rest);
  }
}

TEST(freeze, keeps_single_parameters) {
  EXPECT_EQ(changed_by({"train.freeze=[\"*.bias\", \"bn1.running_m*\", \"ip?.weight\"]"}),
            (std::set<std::string>{"conv1.weight", "conv2.weight", "bn1.weight", "bn1.running_var"}));
}

TEST(freeze, has_the_bits_of_the_plain_loop_and_of_several_workers) {
  for (const overrides& set : {overrides{"train.freeze=[\"conv1\",\"bn1\"]"},
                               overrides{"train.freeze=[\"*.bias\",\"conv2\"]", "train.dynamics.clip={norm=0.5}"}}) {
    const auto expected = plain_hash(job_of(net, set), 6);
    for (const char* workers : {"1", "3"}) {
      auto more = set;
      more.push_back(std::string("topology.workers_per_group=") + workers);
      const auto r = embedded(job_of(net, more));
      ASSERT_TRUE(r.ok) << r.error;
      EXPECT_EQ(r.weights_sha256, expected);
    }
  }
}

TEST(freeze, trains_the_rest_like_a_learning_rate_of_0) {
  const overrides none{"layer.bn1.momentum=0", "layer.conv1.bias=false"};
  auto frozen = none, zero = none;
  frozen.emplace_back("train.freeze=[\"conv1\",\"bn1\"]");
  for (const char* layer : {"conv1", "bn1"}) zero.push_back("layer." + std::string(layer) + ".lr_scale=0");
  EXPECT_EQ(plain_hash(job_of(net, frozen), 6), plain_hash(job_of(net, zero), 6));
}

std::string mistake(const std::string& freeze) { return mistake_in({"train.freeze=" + freeze}); }

TEST(freeze, refuses_patterns_that_match_nothing) {
  EXPECT_EQ(
      mistake("[\"conv1\",\"cnv2\"]"),
      "--set train.freeze=[\"conv1\",\"cnv2\"]: freeze: 'cnv2' matches no layer with parameters and no parameter; did you mean "
      "'conv2'?");
  EXPECT_THAT(mistake("\"stage1.*\""), HasSubstr("no parameter, as 'conv1' or 'ip1.bias'"));
  EXPECT_THAT(mistake("[\"loss\"]"), HasSubstr("'loss' matches no layer with parameters"));
  EXPECT_THAT(mistake("[\"*\"]"), HasSubstr("freeze matches all parameters: nothing is left to train"));
  EXPECT_EQ(mistake("[\"conv1\", \"conv*\"]"), "") << "patterns may overlap";
}

TEST(freeze, mistakes_do_not_blame_a_block_that_a_hint_names) {
  auto text = std::string(net);
  text += "[[block]]\nname = \"b\"\nlayer = [ { name = \"x\", type = \"linear\", inputs = \"in\", outputs = 5 } ]\n";
  const auto at = text.find("type = \"linear\"");
  text.replace(at, std::string("type = \"linear\"").size(), "block = \"b\"");
  text.erase(text.find("outputs = 5"), std::string("outputs = 5").size());
  const auto j = prepare_text({text, "job.toml", {"train.freeze=\"ip1_y\""}}, std::make_shared<const tables>(stock_tables()));
  ASSERT_FALSE(j);
  EXPECT_THAT(j.error().front().to_string(), ::testing::EndsWith("did you mean 'ip1_x'?"));
}

TEST(freeze, patterns_match_as_globs) {
  struct row {
    const char *text, *pattern;
    bool matches;
  };
  for (const auto& r :
       {row{"conv1", "conv1", true}, row{"conv1", "conv", false}, row{"conv1", "conv*", true}, row{"conv1.weight", "conv*", true},
        row{"conv1.weight", "*.weight", true}, row{"conv1.weight", "*.w*t", true}, row{"conv1.weight", "*.w*x", false},
        row{"conv1", "conv?", true}, row{"conv", "conv?", false}, row{"", "", true}, row{"", "*", true}, row{"a", "", false},
        row{"aXbXc", "a*b*c", true}, row{"aab", "*ab", true}, row{"abab", "*ab", true}, row{"abac", "*ab", false}})
    EXPECT_EQ(matches_pattern(r.text, r.pattern), r.matches) << r.text << " " << r.pattern;
  const std::string many(4000, 'a');
  EXPECT_FALSE(matches_pattern(many, std::string(2000, '*') + "b"));
  EXPECT_FALSE(matches_pattern(many, "*a*a*a*a*a*a*a*a*a*a*b"));
}

}  // namespace
}  // namespace troupe
