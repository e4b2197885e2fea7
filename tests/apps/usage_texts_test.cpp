// Text output of troupe: suggestions for unknown commands, options and keys, and names of printed
// values.
#include "tests/apps/child.hpp"

namespace troupe {
namespace {

using namespace testing_apps;

class usage_texts : public command_test {};

TEST_F(usage_texts, names_the_nearest_command_option_or_key_when_a_word_is_unknown) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> lines{
      {{"trian", "job.toml"}, "unknown command 'trian'; did you mean 'train'?"},
      {{"qqqqqqqq"}, "unknown command 'qqqqqqqq' (try: troupe --help)"},
      {{"train", "a.toml", "--theads", "2"}, "unknown option '--theads'; did you mean '--threads'?"},
      {{"train", "a.toml", "--epochs", "3"}, "unknown option '--epochs'; did you mean '--set train.finish.epochs=3'?"},
      {{"train", "--epochs", "3", "a.toml"}, "unknown option '--epochs'; did you mean '--set train.finish.epochs=3'?"},
      {{"train", "a.toml", "--lr=0.1"}, "unknown option '--lr'; did you mean '--set train.dynamics.lr=0.1'?"},
      {{"train", "a.toml", "--momentum"}, "unknown option '--momentum'; did you mean '--set train.dynamics.momentum=VALUE'?"},
      {{"sim", "a.toml", "--nodes", "4", "--batch", "64"}, "unknown option '--batch'; did you mean '--set data.batch=64'?"},
      {{"layers", "--epochs", "3"}, "unknown option '--epochs' (try: troupe layers --help)"},
      {{"TRAIN", "a.toml"}, "unknown command 'TRAIN'; did you mean 'train'?"},
      {{"fit", "job.toml"}, "unknown command 'fit'; Troupe calls it 'train'"},
      {{"Evaluate", "job.toml"}, "unknown command 'Evaluate'; Troupe calls it 'test'"},
      {{"run", "job.toml"}, "unknown command 'run'; Troupe calls it 'train'"},
      {{"layers", "MaxPool2d"}, "Troupe calls it 'max_pool'"},
      {{"job.toml"}, "unknown command 'job.toml'; did you mean 'troupe train job.toml'?"},
      {{"train", "a.toml", "--batch", "64"}, "unknown option '--batch'; did you mean '--set data.batch=64'?"},
      {{"train", "a.toml", "--batch-size=64"}, "unknown option '--batch-size'; did you mean '--set data.batch=64'?"},
      {{"train", "a.toml", "--epoch", "3"}, "unknown option '--epoch'; did you mean '--set train.finish.epochs=3'?"},
      {{"train", "a.toml", "--steps", "9"}, "unknown option '--steps'; did you mean '--set train.finish.steps=9'?"},
      {{"train", "a.toml", "--max_steps", "9"}, "unknown option '--max_steps'; did you mean '--set train.finish.steps=9'?"},
      {{"train", "a.toml", "--seed", "4"}, "unknown option '--seed'; did you mean '--set job.seed=4'?"},
      {{"train", "a.toml", "--device", "cuda:1"}, "unknown option '--device'; did you mean '--set job.devices=gpu:1'?"},
      {{"train", "a.toml", "--gpu", "0"}, "unknown option '--gpu'; did you mean '--set job.devices=gpu:0'?"},
      {{"train", "--cuda", "a.toml"}, "unknown option '--cuda'; did you mean '--set job.devices=gpu:0'?"},
      {{"train", "a.toml", "--weight-decay", "1e-4"},
       "unknown option '--weight-decay'; did you mean '--set train.dynamics.decay=1e-4'?"},
      {{"train", "a.toml", "--optimizer", "adam"}, "unknown option '--optimizer'; did you mean '--set train.dynamics.rule=adam'?"},
      {{"train", "a.toml", "-lr", "0.1"}, "unknown option '-lr'; did you mean '--set train.dynamics.lr=0.1'?"},
      {{"train", "a.toml", "--logdir", "x"}, "unknown option '--logdir'; did you mean '--run-dir'?"},
      {{"train", "a.toml", "--output", "x"}, "unknown option '--output'; did you mean '--out'?"},
      {{"train", "--config", "a.toml"}, "unknown option '--config'; the job file has no option: troupe train a.toml"},
      {{"train", "a.toml", "--set", "lr", "0.1"},
       "--set takes KEY=VALUE as one word, not 'lr 0.1'; did you mean '--set train.dynamics.lr=0.1'?"},
      {{"train", "a.toml", "--set", "train.finish.epochs", "3"},
       "not 'train.finish.epochs 3'; did you mean '--set train.finish.epochs=3'?"},
      {{"train", "a.toml", "train.dynamics.lr=0.1"},
       "unexpected argument 'train.dynamics.lr=0.1'; did you mean '--set train.dynamics.lr=0.1'?"},
      {{"train", "a.toml", "lr=0.1"}, "unexpected argument 'lr=0.1'; did you mean '--set train.dynamics.lr=0.1'?"}};
  for (const auto& [words, message] : lines) {
    const auto o = troupe(words);
    EXPECT_EQ(o.code, 2) << message;
    EXPECT_NE(o.err.find(message), std::string::npos) << o.err << "instead of " << message;
  }
}

TEST_F(usage_texts, suggests_the_full_key_when_an_override_names_the_wrong_table_or_a_name_of_other_programs) {
  const auto job = write("job.toml", tiny_job());
  const std::vector<std::pair<std::string, std::string>> sets{
      {"train.lr=0.1", "unknown key 'lr'; did you mean 'train.dynamics.lr'?"},
      {"lr=0.1", "unknown key 'lr'; did you mean 'train.dynamics.lr'?"},
      {"train.epochs=3", "unknown key 'epochs'; did you mean 'train.finish.epochs'?"},
      {"train.dynamics.batch=3", "unknown key 'batch'; did you mean 'data.batch' or 'eval.batch'?"},
      {"pipeline.momentum=0.9", "unknown key 'momentum'; did you mean 'train.dynamics.momentum'?"},
      {"train.dynamics.LR=0.1", "unknown key 'LR'; did you mean 'lr'?"},
      {"Train.dynamics.lr=0.1", "unknown key 'Train'; did you mean 'train'?"},
      {"LR=0.1", "unknown key 'LR'; did you mean 'train.dynamics.lr'?"},
      {"train.finish.max-epochs=3", "unknown key 'max-epochs'; did you mean 'epochs'?"},
      {"train.dynamics.learning_rate=0.1", "unknown key 'learning_rate'; did you mean 'lr'?"},
      {"train.batch_size=8", "unknown key 'batch_size'; did you mean 'data.batch'?"},
      {"train.sync=ssp", "'sync' must be a table, not a string; did you mean 'train.sync.mode'?"},
      {"train.dynamics=adam", "'dynamics' must be a table, not a string; did you mean 'train.dynamics.rule'?"},
      {"ip1.outputs=8", "unknown key 'ip1'; did you mean 'layer.ip1'?"},
      {"layer.ip.outputs=8", "there is no layer called 'ip'; did you mean 'ip1'?"},
      {"lr", "an override is written key=value, as in train.finish.epochs=1"}};
  for (const auto& [set, message] : sets) {
    const auto o = troupe({"train", job, "--set", set});
    EXPECT_EQ(o.code, 2) << set;
    EXPECT_NE(o.err.find(message), std::string::npos) << o.err << "instead of " << message;
  }
}

TEST_F(usage_texts, time_separates_the_last_row_from_its_numbers) {
  const auto text = troupe({"time", write("job.toml", tiny_job()), "--steps", "10"}).out;
  EXPECT_NE(text.find("\n(load, sum of packets, update) 0."), std::string::npos) << text;
}

TEST_F(usage_texts, weights_hash_has_the_name_of_its_json_key_and_differs_from_file_hashes) {
  const auto job = write("job.toml", tiny_job());
  const auto made = objects(troupe({"init", job, "--out", path("i.safetensors"), "--json"}).out).at(0);
  const auto line = "\nweights_sha256 " + made["weights_sha256"].get<std::string>() + " (of the weights' values; `sha256sum`";
  for (const auto& words : {std::vector<std::string>{"init", job, "--out", path("again.safetensors")},
                            {"train", job, "--set", "train.dynamics.lr=0"}}) {
    const auto text = troupe(words).out;
    EXPECT_NE(text.find(line), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace troupe
