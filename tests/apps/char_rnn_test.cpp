// The character jobs of configs/jobs on the command line: train, stop and resume, test, generate
// text.
#include <signal.h>

#include "runtime/record/checkpoint.hpp"
#include "tests/apps/child.hpp"

namespace troupe {
namespace {

using namespace testing_apps;

std::string drawn_text() {
  std::string text;
  for (unsigned i = 0, x = 1; i < 9000; ++i) text += static_cast<char>('a' + (x = x * 1103515245u + 12345u) / 65536u % 3 * (i % 5));
  return text;
}

// Small nets on a small text, with two workers and two packets.
class char_rnn : public command_test, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override { data_ = write("text.txt", drawn_text()); }
  std::vector<std::string> command(const std::string& what, std::vector<std::string> more) const {
    const std::string name = GetParam();
    std::vector<std::string> words{what, std::string(TROUPE_SOURCE_DIR) + "/configs/jobs/char_rnn_" + name + ".toml", "--json"};
    std::vector<std::string> set{"data.path=" + data_, "data.sequence=20", "data.batch=8", "train.finish={steps=70}",
                                 "eval.every=30"};
    for (const auto* layer : {"1", "2"})
      if (name == "lstm" || std::string(layer) == "1") set.push_back("layer." + name + layer + ".units=24");
    for (const auto& s : set) words.insert(words.end(), {"--set", s});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  nlohmann::json last(const outcome& o) const {
    const auto list = objects(o.out);
    return list.empty() ? nlohmann::json() : list.back();
  }
  std::string data_;
};

TEST_P(char_rnn, trains_to_the_same_weights_for_any_worker_count_and_writes_text) {
  const auto o = troupe(command("train", {"--out", path("w.safetensors")}));
  ASSERT_EQ(o.code, 0) << o.out << o.err;
  const auto two = troupe(command("train", {"--set", "topology.workers_per_group=2"}));
  EXPECT_EQ(last(two)["weights_sha256"], last(o)["weights_sha256"]);
  const auto steps = of_kind(objects(o.out), "step"), evals = of_kind(objects(o.out), "eval");
  EXPECT_LT(steps.back()["loss"], steps.front()["loss"]);
  ASSERT_GE(evals.size(), 2u);
  EXPECT_EQ(of_kind(objects(two.out), "eval").back()["loss"], evals.back()["loss"]);
  const auto tested = troupe(command("test", {"--weights", path("w.safetensors")}));
  ASSERT_EQ(tested.code, 0) << tested.out;
  EXPECT_EQ(of_kind(objects(tested.out), "eval").back()["loss"], evals.back()["loss"]);
  const auto a = troupe(command("sample", {"--weights", path("w.safetensors"), "--start", "ab", "--length", "30", "--seed", "4"}));
  ASSERT_EQ(a.code, 0) << a.out << a.err;
  EXPECT_EQ(last(a)["text"].get<std::string>().size(), 32u);
  EXPECT_EQ(last(a)["text"].get<std::string>().substr(0, 2), "ab");
  const auto b = troupe(command("sample", {"--weights", path("w.safetensors"), "--start", "ab", "--length", "30", "--seed", "4"}));
  EXPECT_EQ(a.out, b.out);
  const auto wrong = troupe(command("sample", {"--weights", path("w.safetensors"), "--start", "Q"}));
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.out.find("the vocabulary has no 'Q'"), std::string::npos) << wrong.out;
}

TEST_P(char_rnn, predicts_examples_that_each_begin_with_zeros) {
  const auto o = troupe(command("train", {"--out", path("w.safetensors")}));
  ASSERT_EQ(o.code, 0) << o.out << o.err;
  const auto line = [](int first) {  // ids of an example
    std::string text = std::to_string(first);
    for (int i = 1; i < 20; ++i) text += "," + std::to_string(i % 4);
    return text + "\n";
  };
  const auto both = write("both.csv", line(1) + line(2)), second = write("second.csv", line(2));
  const auto weights = path("w.safetensors"), net = path("net.troupe");
  const auto rows = [&](const outcome& p) {
    EXPECT_EQ(p.code, 0) << p.out << p.err;
    return of_kind(objects(p.out), "prediction");
  };
  const auto all = rows(troupe(command("predict", {"--weights", weights, both})));
  const auto alone = rows(troupe(command("predict", {"--weights", weights, second})));
  ASSERT_EQ(all.size(), 2 * alone.size());
  for (std::size_t i = 0; i < alone.size(); ++i) {
    EXPECT_EQ(all[alone.size() + i]["class"], alone[i]["class"]) << i;
    EXPECT_NEAR(all[alone.size() + i]["probability"].get<double>(), alone[i]["probability"].get<double>(), 1e-5) << i;
  }
  const auto exported = troupe(command("export", {"--weights", weights, "--out", net}));
  ASSERT_EQ(exported.code, 0) << exported.out << exported.err;
  const auto of_net = rows(troupe({"predict", net, second, "--json"}));
  ASSERT_EQ(of_net.size(), alone.size());
  for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_EQ(of_net[i]["class"], alone[i]["class"]) << i;
}

TEST_P(char_rnn, predicts_test_data_only_if_the_evaluation_begins_with_zeros_too) {
  const auto o = troupe(command("train", {"--out", path("w.safetensors")}));
  ASSERT_EQ(o.code, 0) << o.out << o.err;
  const auto refused = troupe(command("predict", {"--weights", path("w.safetensors"), "--test"}));
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.out.find("predictions begin every example with zeros"), std::string::npos) << refused.out;
  const auto zeros =
      troupe(command("predict", {"--weights", path("w.safetensors"), "--test", "--set", "eval.sampler={kind=\"all\"}"}));
  EXPECT_EQ(zeros.code, 0) << zeros.out << zeros.err;
}

TEST_P(char_rnn, resumed_run_ends_with_the_weights_of_an_unbroken_run) {
  const std::vector<std::string> longer{"--set", "train.finish.steps=600"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), longer.begin(), longer.end());
    return command("train", more);
  };
  const auto unbroken = troupe(command("train", longer));
  ASSERT_EQ(unbroken.code, 0) << unbroken.out;
  child c(troupe_program(), with({"--checkpoint", path("c.safetensors")}), folder_);
  std::string line;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(c.read_line(line));
  c.send(SIGTERM);
  const auto stopped = c.wait();
  const auto kept = load_checkpoint(path("c.safetensors"));
  ASSERT_TRUE(kept) << kept.error().to_string() << stopped.out;
  const auto resumed = troupe(with({"--resume", path("c.safetensors")}));
  ASSERT_EQ(resumed.code, 0) << resumed.out;
  EXPECT_EQ(last(resumed)["weights_sha256"], last(unbroken)["weights_sha256"]) << "from step " << kept->step;
}

using char_gpt = command_test;

TEST_F(char_gpt, trains_to_the_same_weights_for_two_workers_and_writes_text) {
  const auto data = write("text.txt", drawn_text());
  const auto command = [&](const std::string& what, std::vector<std::string> more) {
    std::vector<std::string> words{what, std::string(TROUPE_SOURCE_DIR) + "/configs/jobs/char_gpt.toml", "--json"};
    for (const auto& s :
         {"data.path=" + data, std::string("data.sequence=20"), std::string("data.batch=8"),
          std::string("train.finish={steps=150}"), std::string("eval.every=50"), std::string("pipeline.packets=2"),
          std::string("layer.token.outputs=16"), std::string("layer.embed.shape=[-1,16]"), std::string("layer.blocks.width=16"),
          std::string("layer.blocks.heads=2"), std::string("layer.blocks.repeat=2"), std::string("train.dynamics.lr=0.01")})
      words.insert(words.end(), {"--set", s});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const auto o = troupe(command("train", {"--out", path("w.safetensors")}));
  ASSERT_EQ(o.code, 0) << o.out << o.err;
  const auto two = troupe(command("train", {"--set", "topology.workers_per_group=2"}));
  EXPECT_EQ(objects(two.out).back()["weights_sha256"], objects(o.out).back()["weights_sha256"]);
  const auto evals = of_kind(objects(o.out), "eval");
  ASSERT_GE(evals.size(), 2u);
  EXPECT_LT(evals.back()["loss"], 1.9);  // each character is one of 9, not all as often, or one of 3 if its place is known
  const auto a = troupe(command("sample", {"--weights", path("w.safetensors"), "--start", "ab", "--length", "30", "--seed", "4"}));
  ASSERT_EQ(a.code, 0) << a.out << a.err;
  EXPECT_EQ(objects(a.out).back()["text"].get<std::string>().size(), 32u);
}

INSTANTIATE_TEST_SUITE_P(configs, char_rnn, testing::Values("gru", "lstm"), [](const auto& i) { return std::string(i.param); });

}  // namespace
}  // namespace troupe
