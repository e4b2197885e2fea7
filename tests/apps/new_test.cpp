// `troupe new` and `troupe check --resolved`.
#include <sstream>

#include "tests/apps/child.hpp"

namespace troupe {
namespace {

using namespace testing_apps;

class new_job : public command_test {
 protected:
  nlohmann::json trained(const std::string& job, std::vector<std::string> more = {}) const {
    std::vector<std::string> words{"train", job, "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const auto o = troupe(words);
    EXPECT_EQ(o.code, 0) << o.out << o.err;
    const auto done = of_kind(objects(o.out), "done");
    return done.empty() ? nlohmann::json() : done.back();
  }
};

TEST_F(new_job, writes_a_job_that_passes_check_and_trains_two_steps) {
  for (const char* from : {"synthetic", "cifar", "resnet"}) {
    const auto made = troupe({"new", from, "--from", from, "--json"});
    ASSERT_EQ(made.code, 0) << made.out << made.err;
    const auto o = objects(made.out).at(0);
    EXPECT_EQ(o["event"], "new");
    EXPECT_EQ(o["next"], "troupe train " + std::string(from) + ".toml");
    const auto job = path(std::string(from) + ".toml");
    const auto check = troupe({"check", job, "--set", "data.examples=600", "--set", "data.test_examples=128"});
    EXPECT_EQ(check.code, 0) << check.err << file_text(std::string(from) + ".toml");
  }
  EXPECT_EQ(trained(path("synthetic.toml"), {"--set", "train.finish={ steps = 2 }"})["steps"], 2);
  EXPECT_NE(file_text("synthetic.toml").find("name = \"synthetic\"\n"), std::string::npos);
}

TEST_F(new_job, is_lenet_on_fashion_mnist_by_default_and_prints_the_next_command) {
  const auto made = troupe({"new", "first"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_NE(made.out.find("first.toml: LeNet on Fashion-MNIST\n"), std::string::npos) << made.out;
  EXPECT_NE(made.out.find("\nnext: troupe train first.toml"), std::string::npos) << made.out;
  if (!std::filesystem::exists("/usr/share/datasets/fashion-mnist")) GTEST_SKIP() << "there is no Fashion-MNIST";
  EXPECT_EQ(troupe({"check", path("first.toml")}).code, 0);
  EXPECT_EQ(
      trained(path("first.toml"), {"--set", "train.finish={ steps = 2 }", "--set", "eval.sampler={ kind = \"all\" }"})["steps"], 2);
}

TEST_F(new_job, explains_each_key_with_its_choices) {
  ASSERT_EQ(troupe({"new", "a", "--from", "mlp"}).code, 0);
  const auto text = file_text("a.toml");
  std::istringstream lines(text);
  std::string line, before;
  bool layers = false;
  int keys = 0;
  while (std::getline(lines, line)) {
    if (!line.empty() && line[0] == '[') layers = line == "[[layer]]";
    const bool key = line.find(" = ") != std::string::npos && line[0] != '#';
    if (key && !layers) {
      ++keys;
      EXPECT_TRUE(before.starts_with("# ")) << line << " has no comment above it";
    }
    before = line;
  }
  EXPECT_GT(keys, 15);
  for (const char* part : {"momentum", "nesterov", "adam"})
    EXPECT_NE(text.find(part, text.find("[train.dynamics]")), std::string::npos) << part << "\n" << text;
  EXPECT_NE(text.find("\"fp32\", \"f64\", \"bf16\""), std::string::npos) << text;
  EXPECT_NE(text.find("[checkpoint]\n"), std::string::npos);
}

TEST_F(new_job, replaces_no_file_and_names_the_templates) {
  const auto old = write("mine.toml", "# mine\n");
  const auto refused = troupe({"new", "mine"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("mine.toml: the file exists"), std::string::npos) << refused.err;
  EXPECT_EQ(file_text("mine.toml"), "# mine\n");
  const auto unknown = troupe({"new", "x", "--from", "lenett"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.err.find("there is no template 'lenett'; did you mean 'lenet'? (available: lenet, mlp"), std::string::npos)
      << unknown.err;
  EXPECT_EQ(troupe({"new", ""}).code, 2);
  EXPECT_NE(troupe({"new", "--help"}).out.find("char-rnn: "), std::string::npos) << "help lists the templates";
  EXPECT_EQ(troupe({"new", "no/such/folder/x"}).code, 2);
  EXPECT_FALSE(std::filesystem::exists(path("x.toml")));
}

TEST_F(new_job, names_the_data_that_is_missing) {
  const auto made = troupe({"new", "poems", "--from", "char-rnn"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_NE(made.out.find("there is no text.txt"), std::string::npos) << made.out;
  EXPECT_NE(made.out.find("next: troupe train poems.toml --set data.path=PATH\n"), std::string::npos) << made.out;
}

TEST_F(new_job, resolved_text_trains_to_the_same_weights) {
  const auto job = write("job.toml", tiny_job("[train.exchange]\nreducer = \"tree\"\n"));
  const std::vector<std::string> set{"--set", "train.dynamics.lr=0.02",      "--set", "layer.ip1.lr_scale=[1,2]",
                                     "--set", "topology.workers_per_group=2"};
  std::vector<std::string> words{"check", "--resolved", job};
  words.insert(words.end(), set.begin(), set.end());
  const auto text = troupe(words);
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("\nlr = 0.02\n"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("\nname = \"tiny\"\n"), std::string::npos);
  const auto full = write("full.toml", text.out);
  EXPECT_EQ(trained(full)["weights_sha256"], trained(job, set)["weights_sha256"]);
  EXPECT_NE(trained(full)["weights_sha256"], trained(job)["weights_sha256"]);
  EXPECT_EQ(troupe({"check", "--resolved", full}).out, text.out) << "resolved twice";
  words.push_back("--json");
  const auto o = objects(troupe(words).out).at(0);
  EXPECT_EQ(o["event"], "resolved");
  EXPECT_EQ(o["text"], text.out);
}

TEST_F(new_job, resolved_is_for_one_job_file) {
  const auto job = write("job.toml", tiny_job());
  const auto cluster = write("cluster.toml", "[cluster]\nname = \"lab\"\n");
  EXPECT_EQ(troupe({"check", "--resolved", job, job}).code, 2);
  EXPECT_EQ(troupe({"check", "--resolved", cluster}).code, 2);
  EXPECT_EQ(troupe({"check", "--resolved", job, "--set", "train.dynamics.lr=-1"}).code, 2);
  const auto plugged = write("plugged.toml", "plugins = [\"job.toml\"]\n" + tiny_job());
  EXPECT_NE(troupe({"check", "--resolved", plugged}).err.find("--load-plugins"), std::string::npos);
}

}  // namespace
}  // namespace troupe
