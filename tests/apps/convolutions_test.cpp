// The algorithms of convolutions on the command line: the output of `troupe time`, and errors.
#include "tests/apps/child.hpp"

namespace troupe {
namespace {

using namespace testing_apps;

std::string conv_job() {
  auto text = tiny_job();
  const std::string first = "[[layer]]\nname = \"ip1\"\ntype = \"linear\"\ninputs = [\"data\"]";
  text.replace(text.find(first), first.size(),
               "[[layer]]\nname = \"conv1\"\ntype = \"convolution\"\ninputs = [\"data\"]\noutputs = 4\nkernel = 3\n"
               "[[layer]]\nname = \"ip1\"\ntype = \"linear\"\ninputs = [\"conv1\"]");
  return text;
}

using convolutions_command = command_test;

TEST_F(convolutions_command, time_shows_the_algorithm_of_each_pass) {
  const auto job = write("job.toml", conv_job());
  const auto shown = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"time", job, "--json", "--steps", "2"});
    const auto o = troupe(words);
    EXPECT_EQ(o.code, 0) << o.out << o.err;
    return objects(o.out).back()["layers"][0]["convolution"];
  };
  const auto named = shown({"--set", "layer.conv1.algorithm=lowering3", "--set", "layer.conv1.algorithm_weights=lowering2"});
  EXPECT_EQ(named["forward"]["algorithm"], "lowering3");
  EXPECT_EQ(named["weights"]["algorithm"], "lowering2");
  EXPECT_FALSE(named.contains("data")) << "the gradient of the data is not computed";
  const auto by_rule = shown({});
  EXPECT_TRUE(by_rule["forward"]["algorithm"].is_string());
  EXPECT_NE(by_rule["forward"]["algorithm"], "auto");
  EXPECT_EQ(shown({"--set", "job.precision=f64", "--set", "layer.conv1.algorithm=direct"})["forward"]["algorithm"], "lowering1");
}

TEST_F(convolutions_command, errors_name_the_wrong_key) {
  const auto job = write("job.toml", conv_job());
  const auto typo = troupe({"train", job, "--set", "layer.conv1.algorithm_weights=dirct"});
  EXPECT_EQ(typo.code, 2);
  EXPECT_NE(typo.err.find("algorithm_weights"), std::string::npos) << typo.err;
  const auto stride = troupe({"train", job, "--set", "layer.conv1.algorithm_data=winograd", "--set", "layer.conv1.stride=2"});
  EXPECT_EQ(stride.code, 2);
  EXPECT_NE(stride.err.find("winograd requires kernel 3 or 5, stride 1"), std::string::npos) << stride.err;
}

}  // namespace
}  // namespace troupe
