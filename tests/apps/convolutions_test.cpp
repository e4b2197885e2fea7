// [job] convolution = "measured" on the command line: the output of `troupe time`, and resumed
// runs, which keep their algorithms.
#include <signal.h>

#include <cstdlib>

#include "ops/device.hpp"
#include "runtime/node/convolution_times.hpp"
#include "runtime/record/checkpoint.hpp"
#include "tests/apps/child.hpp"

namespace troupe {
namespace {

using namespace testing_apps;
using enum conv_algorithm;

std::string conv_job() {
  auto text = tiny_job();
  const std::string first = "[[layer]]\nname = \"ip1\"\ntype = \"linear\"\ninputs = [\"data\"]";
  text.replace(text.find(first), first.size(),
               "[[layer]]\nname = \"conv1\"\ntype = \"convolution\"\ninputs = [\"data\"]\noutputs = 4\nkernel = 3\n"
               "[[layer]]\nname = \"ip1\"\ntype = \"linear\"\ninputs = [\"conv1\"]");
  return text;
}

class convolutions_command : public command_test {
 protected:
  convolutions_command() { setenv("XDG_CACHE_HOME", folder_.c_str(), 1); }
  ~convolutions_command() override { unsetenv("XDG_CACHE_HOME"); }

  // Writes a cache in which this algorithm is the fastest for every pass of conv1.
  void believe(conv_algorithm a) const {
    const auto d = make_cpu_device();
    convolution_cache cache(convolution_cache_file(), machine_words(*d));
    const conv_geometry g{.batch = 8, .channels = 1, .height = 8, .width = 8, .outputs = 4, .kernel_h = 3, .kernel_w = 3};
    for (const auto p : conv_passes_all) {
      conv_times t;
      for (const auto& name : conv_algorithm_names())
        if (const auto one = conv_algorithm_named(name); one != automatic && why_not(one, g).empty()) t[one] = one == a ? 0.5 : 5;
      cache.put(g, p, t);
    }
    cache.save();
  }
  std::string hash(std::vector<std::string> words) const {
    words.insert(words.begin(), {"train", "--json"});
    const auto o = troupe(words);
    EXPECT_EQ(o.code, 0) << o.out << o.err;
    const auto all = objects(o.out);
    return all.empty() ? "" : all.back().value("weights_sha256", "none");
  }
};

TEST_F(convolutions_command, a_measured_choice_gives_the_weights_of_named_algorithms) {
  believe(lowering3);
  const auto job = write("job.toml", conv_job());
  const auto named = hash({job, "--set", "layer.conv1.algorithm=lowering3"});
  EXPECT_EQ(hash({job, "--set", "job.convolution=measured"}), named);
  EXPECT_EQ(hash({job, "--set", "job.convolution=measured", "--set", "topology.workers_per_group=2"}), named);
  believe(lowering2);
  EXPECT_EQ(hash({job, "--set", "job.convolution=measured"}), hash({job, "--set", "layer.conv1.algorithm=lowering2"}));
}

TEST_F(convolutions_command, time_shows_the_algorithm_and_its_candidates) {
  believe(lowering3);
  const auto job = write("job.toml", conv_job());
  const auto shown = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"time", job, "--json", "--steps", "2"});
    const auto o = troupe(words);
    EXPECT_EQ(o.code, 0) << o.out << o.err;
    return objects(o.out).back()["layers"][0]["convolution"];
  };
  const auto by_measure = shown({"--set", "job.convolution=measured"});
  EXPECT_EQ(by_measure["forward"]["algorithm"], "lowering3");
  EXPECT_EQ(by_measure["weights"]["candidates_ms"]["lowering3"], 0.5);
  EXPECT_EQ(by_measure["weights"]["candidates_ms"]["lowering1"], 5);
  EXPECT_FALSE(by_measure.contains("data")) << "the gradient of the data is not computed";
  const auto by_rule = shown({});
  EXPECT_TRUE(by_rule["forward"]["algorithm"].is_string());
  EXPECT_NE(by_rule["forward"]["algorithm"], "auto");
  EXPECT_FALSE(by_rule["forward"].contains("candidates_ms"));
  EXPECT_EQ(shown({"--set", "job.precision=f64", "--set", "layer.conv1.algorithm=direct"})["forward"]["algorithm"], "lowering1");
}

// The cache has changed before the run is resumed, as on another machine.
TEST_F(convolutions_command, a_resumed_run_keeps_its_algorithms) {
  const auto job = write("job.toml", conv_job());
  const std::vector<std::string> set{"--set", "train.finish.steps=3000", "--set", "eval.every=0",
                                     "--set", "job.convolution=measured"};
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.end(), set.begin(), set.end());
    return words;
  };
  believe(lowering3);
  const auto unbroken = hash(with({job}));
  child c(troupe_program(), with({"train", "--json", job, "--checkpoint", path("c.safetensors")}), folder_);
  std::string line;
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(c.read_line(line));
  c.send(SIGINT);
  ASSERT_EQ(c.wait().code, 0);
  const auto kept = load_checkpoint(path("c.safetensors"));
  EXPECT_EQ(kept_convolutions(kept->extra), "conv1=lowering3/auto/lowering3");
  believe(lowering2);
  EXPECT_EQ(hash(with({job, "--resume", path("c.safetensors")})), unbroken);
  const auto by_rule = troupe({"train", job, "--resume", path("c.safetensors"), "--set", "train.finish.steps=3000"});
  EXPECT_EQ(by_rule.code, 2);
  EXPECT_NE(by_rule.err.find("conv1=lowering3/auto/lowering3"), std::string::npos) << by_rule.err;
}

TEST_F(convolutions_command, errors_name_the_wrong_key) {
  const auto job = write("job.toml", conv_job());
  const auto typo = troupe({"train", job, "--set", "layer.conv1.algorithm_weights=dirct"});
  EXPECT_EQ(typo.code, 2);
  EXPECT_NE(typo.err.find("algorithm_weights"), std::string::npos) << typo.err;
  const auto stride = troupe({"train", job, "--set", "layer.conv1.algorithm_data=winograd", "--set", "layer.conv1.stride=2"});
  EXPECT_EQ(stride.code, 2);
  EXPECT_NE(stride.err.find("winograd requires kernel 3 or 5, stride 1"), std::string::npos) << stride.err;
  const auto how = troupe({"train", job, "--set", "job.convolution=guessed"});
  EXPECT_EQ(how.code, 2);
  EXPECT_NE(how.err.find("rule, measured"), std::string::npos) << how.err;
}

}  // namespace
}  // namespace troupe
