// `troupe train` and `troupe test` on the command line: events, exit codes, files, signals.
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>

#include <fstream>

#include "runtime/record/checkpoint.hpp"
#include "runtime/record/sha256.hpp"
#include "tests/apps/child.hpp"
#include "tests/error_text.hpp"

namespace troupe {
namespace {

using namespace testing_apps;

class train_command : public command_test {
 protected:
  nlohmann::json last(const outcome& o) const {
    const auto list = objects(o.out);
    return list.empty() ? nlohmann::json() : list.back();
  }
  std::string hash_of(const outcome& o) const { return last(o).value("weights_sha256", "none"); }
};

TEST_F(train_command, json_has_every_step_and_evaluation_and_ends_with_done) {
  const auto o = troupe({"train", write("job.toml", tiny_job()), "--json"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.err, "");
  const auto all = objects(o.out);
  const auto steps = of_kind(all, "step"), evals = of_kind(all, "eval");
  ASSERT_EQ(steps.size(), 40u);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i]["step"], i + 1);
    EXPECT_TRUE(steps[i]["loss"].is_number() && steps[i]["examples_per_s"].is_number()) << steps[i];
  }
  ASSERT_EQ(evals.size(), 2u);
  for (const auto& e : evals) EXPECT_TRUE(e["accuracy"].is_number() && e["loss"].is_number() && e["step"].is_number()) << e;
  const auto& done = all.back();
  ASSERT_EQ(done["event"], "done");
  EXPECT_EQ(done["steps"], 40);
  EXPECT_EQ(done["epochs"], 2);
  EXPECT_EQ(done["packets"], 2);
  EXPECT_EQ(done["test_accuracy"], evals.back()["accuracy"]);
  EXPECT_GT(done["seconds"], 0);
  EXPECT_EQ(done["weights_sha256"].get<std::string>().size(), 64u);
}

TEST_F(train_command, plain_text_is_short_and_ends_with_the_result) {
  const auto o = troupe({"train", write("job.toml", tiny_job())});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.err, "");
  EXPECT_NE(o.out.find("tiny: "), std::string::npos);
  EXPECT_NE(o.out.find("evaluation: accuracy"), std::string::npos);
  EXPECT_NE(o.out.find("done: 40 steps, 2.00 epochs, test accuracy"), std::string::npos) << o.out;
  EXPECT_EQ(o.out.find('\r'), std::string::npos);
  EXPECT_LT(std::count(o.out.begin(), o.out.end(), '\n'), 20);
}

TEST_F(train_command, the_same_job_gives_the_same_bits_and_the_seed_matters) {
  const auto job = write("job.toml", tiny_job());
  const auto a = hash_of(troupe({"train", job, "--json"}));
  EXPECT_EQ(hash_of(troupe({"train", job, "--json", "--threads", "1", "--set", "topology.workers_per_group=2"})), a);
  EXPECT_NE(hash_of(troupe({"train", job, "--json", "--set", "job.seed=4"})), a);
}

TEST_F(train_command, test_gives_the_accuracy_of_the_trained_weights) {
  const auto job = write("job.toml", tiny_job());
  const auto trained = troupe({"train", job, "--json", "--out", path("w.safetensors")});
  ASSERT_EQ(trained.code, 0) << trained.out;
  const auto tested = troupe({"test", job, "--json", "--weights", path("w.safetensors")});
  ASSERT_EQ(tested.code, 0) << tested.out;
  const auto all = objects(tested.out);
  ASSERT_EQ(all.size(), 2u) << tested.out;
  EXPECT_EQ(all[0]["event"], "eval");
  EXPECT_EQ(all[1]["event"], "done");
  EXPECT_EQ(all[1]["test_accuracy"], last(trained)["test_accuracy"]);
  EXPECT_EQ(all[1]["weights_sha256"], last(trained)["weights_sha256"]);
  EXPECT_EQ(all[1]["steps"], 40);
}

TEST_F(train_command, starts_from_given_weights_instead_of_the_seed) {
  const auto job = write("job.toml", tiny_job());
  ASSERT_EQ(troupe({"init", job, "--out", path("i.safetensors")}).code, 0);
  const auto plain = hash_of(troupe({"train", job, "--json"}));
  EXPECT_EQ(hash_of(troupe({"train", job, "--json", "--weights", path("i.safetensors")})), plain);
  ASSERT_EQ(troupe({"init", job, "--out", path("j.safetensors"), "--set", "job.seed=9"}).code, 0);
  EXPECT_NE(hash_of(troupe({"train", job, "--json", "--weights", path("j.safetensors")})), plain);
}

// Promises 13 and 23 (docs/promises.md): a signal leaves a checkpoint, from which the job continues
// with the bits of an unbroken run.
TEST_F(train_command, a_signal_leaves_a_checkpoint_that_continues_bit_for_bit) {
  const auto job = write("job.toml", tiny_job());
  const std::vector<std::string> set{"--set", "train.finish.steps=6000", "--set", "eval.every=0", "--json"};
  for (const auto& one : {std::pair{SIGINT, "fp32"}, std::pair{SIGTERM, "fp32"}, std::pair{SIGTERM, "bf16"}}) {
    const auto with = [&](std::vector<std::string> words) {
      words.insert(words.end(), set.begin(), set.end());
      words.insert(words.end(), {"--set", std::string("job.precision=\"") + one.second + "\""});
      return words;
    };
    const auto unbroken = hash_of(troupe(with({"train", job})));
    child c(troupe_program(), with({"train", job, "--checkpoint", path("c.safetensors")}), folder_);
    std::string line;
    for (int i = 0; i < 25; ++i) ASSERT_TRUE(c.read_line(line)) << "no step " << i;
    c.send(one.first);
    const auto stopped = c.wait();
    ASSERT_EQ(stopped.code, 128 + one.first) << stopped.err;
    const auto done = last(stopped);
    ASSERT_EQ(done["event"], "done") << done;
    ASSERT_LT(done["steps"], 6000);
    EXPECT_EQ(of_kind(objects(stopped.out), "checkpoint").at(0)["file"], path("c.safetensors"));
    const auto kept = load_checkpoint(path("c.safetensors"));
    ASSERT_TRUE(kept) << kept.error().to_string();
    EXPECT_EQ(kept->step, done["steps"].get<std::uint64_t>());
    const auto resumed = troupe(with({"train", job, "--resume", path("c.safetensors"), "--set", "topology.workers_per_group=2"}));
    ASSERT_EQ(resumed.code, 0) << resumed.out;
    EXPECT_EQ(hash_of(resumed), unbroken);
    EXPECT_EQ(objects(resumed.out).front()["step"], done["steps"].get<int>() + 1);
  }
}

TEST_F(train_command, resumes_from_the_newest_valid_checkpoint_of_a_folder) {
  const auto job = write("job.toml", tiny_job());
  const std::vector<std::string> words{"train", job, "--json", "--set", "train.finish.steps=6000", "--set", "eval.every=0"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return more;
  };
  child c(troupe_program(), with({"--checkpoint", path("c.safetensors")}), folder_);
  std::string line;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(c.read_line(line)) << "no step " << i;
  c.send(SIGINT);
  ASSERT_EQ(c.wait().code, 130);
  auto kept = load_checkpoint(path("c.safetensors"));
  ASSERT_TRUE(kept) << kept.error().to_string();
  for (int i = 0; i < 2; ++i) ASSERT_EQ(test::error_text(save_checkpoint(path("all"), *kept)), "");
  const auto newest = checkpoint_files(path("all")).at(0);
  std::fstream(newest, std::ios::in | std::ios::out | std::ios::binary).seekp(-3, std::ios::end).put('\x7f');
  const auto on = troupe(with({"--resume", path("all")}));
  ASSERT_EQ(on.code, 0) << on.out;
  EXPECT_NE(on.err.find(newest + ": tensor"), std::string::npos) << on.err;
  EXPECT_EQ(hash_of(on), hash_of(troupe(with({}))));
  std::filesystem::create_directories(path("none"));
  const auto none = troupe(with({"--resume", path("none")}));
  EXPECT_EQ(none.code, 2);
  EXPECT_EQ(last(none)["where"], path("none"));
  const auto both = troupe(with({"--resume", path("all"), "--weights", path("c.safetensors"), "--cluster", path("no.toml")}));
  EXPECT_EQ(both.code, 2);
  EXPECT_EQ(last(both)["where"], "--resume") << both.out;
}

// The run cannot end by itself: its output is not read, and it waits for room in the pipe.
TEST_F(train_command, a_second_signal_ends_at_once) {
  const auto job = write("job.toml", tiny_job());
  child c(troupe_program(),
          {"train", job, "--json", "--checkpoint", path("c.safetensors"), "--set", "train.finish.steps=100000000"}, folder_);
  std::string line;
  ASSERT_TRUE(c.read_line(line));
  ASSERT_TRUE(c.blocks_on_output());
  // Signals within 2 s are one request. On a busy machine the first may be handled late, so a third
  // one follows.
  for (int i = 0; i < 3; ++i) {
    c.send(SIGINT);
    c.send(SIGTERM);
    poll(nullptr, 0, 2100);
  }
  const auto o = c.wait();
  EXPECT_THAT(o.code, testing::AnyOf(130, 143));
  EXPECT_EQ(o.out.find("\"event\":\"done\""), std::string::npos) << "it came to its end";
}

TEST_F(train_command, two_signals_at_once_are_one_request) {
  const auto job = write("job.toml", tiny_job());
  child c(troupe_program(),
          {"train", job, "--json", "--checkpoint", path("c.safetensors"), "--set", "train.finish.steps=100000000"}, folder_);
  std::string line;
  ASSERT_TRUE(c.read_line(line));
  c.send(SIGTERM);
  c.send(SIGTERM);
  const auto o = c.wait();
  EXPECT_EQ(o.code, 143) << o.err;
  const auto kept = load_checkpoint(path("c.safetensors"));
  ASSERT_TRUE(kept) << kept.error().to_string();
  EXPECT_EQ(kept->step, last(o)["steps"].get<std::uint64_t>());
}

TEST_F(train_command, refuses_files_that_it_cannot_continue_and_says_why) {
  const auto job = write("job.toml", tiny_job());
  ASSERT_EQ(troupe({"train", job, "--out", path("w.safetensors")}).code, 0);
  const auto no_checkpoint = troupe({"train", job, "--resume", path("w.safetensors")});
  EXPECT_EQ(no_checkpoint.code, 2);
  EXPECT_NE(no_checkpoint.err.find("not a checkpoint"), std::string::npos) << no_checkpoint.err;
  const auto missing = troupe({"train", job, "--weights", path("nothing.safetensors"), "--json"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_EQ(last(missing)["event"], "error");
  EXPECT_EQ(last(missing)["where"], path("nothing.safetensors"));
  const auto shape = troupe({"train", job, "--weights", path("w.safetensors"), "--set", "layer.ip1.outputs=8"});
  EXPECT_EQ(shape.code, 2);
  EXPECT_NE(shape.err.find("'ip1.weight' has shape 16x64, but the model needs 8x64"), std::string::npos) << shape.err;
}

TEST_F(train_command, a_failure_at_run_time_is_exit_1_and_an_error_event) {
  const auto job = write("job.toml", tiny_job());
  const auto o = troupe({"train", job, "--json", "--set", "train.dynamics.lr=1e25"});
  EXPECT_EQ(o.code, 1);
  EXPECT_EQ(last(o)["event"], "error");
  EXPECT_NE(last(o)["message"].get<std::string>().find("not finite"), std::string::npos) << o.out;
}

TEST_F(train_command, skips_nonfinite_steps_and_fails_after_too_many_in_a_row) {
  const auto job = write("job.toml", tiny_job());
  const auto o = troupe({"train", job, "--json", "--set", "train.dynamics.lr=1e25", "--set", "train.max_skipped=3"});
  EXPECT_EQ(o.code, 1);
  const auto alerts = of_kind(objects(o.out), "alert");
  ASSERT_EQ(alerts.size(), 3u) << o.out;
  for (std::size_t i = 0; i < alerts.size(); ++i) {
    EXPECT_EQ(alerts[i]["skipped"], i + 1) << alerts[i];
    EXPECT_NE(alerts[i]["message"].get<std::string>().find("the gradient of layer 'ip"), std::string::npos) << alerts[i];
  }
  EXPECT_NE(last(o)["message"].get<std::string>().find(": 4 such steps in a row, [train] max_skipped is 3"), std::string::npos)
      << o.out;
  EXPECT_EQ(of_kind(objects(o.out), "step").back()["skipped"], 3) << o.out;
}

// A run that has not learned ends with exit code 0 and weights, but with a warning.
TEST_F(train_command, warns_before_the_done_event_when_the_loss_did_not_fall) {
  const auto job = write("job.toml", tiny_job());
  const std::vector<std::string> set{"--set", "train.dynamics={rule=\"adam\",lr=100}"};
  std::vector<std::string> words{"train", job, "--json"};
  words.insert(words.end(), set.begin(), set.end());
  const auto o = troupe(words);
  ASSERT_EQ(o.code, 0) << o.out;
  const auto all = objects(o.out);
  const auto warnings = of_kind(all, "warning");
  ASSERT_EQ(warnings.size(), 1u) << o.out;
  EXPECT_EQ(warnings[0]["step"], 40);
  const auto message = warnings[0]["message"].get<std::string>();
  EXPECT_EQ(message.rfind("the loss did not fall: ", 0), 0u) << message;
  EXPECT_NE(message.find(" at step 1, "), std::string::npos) << message;
  EXPECT_EQ(all[all.size() - 2]["event"], "warning");
  EXPECT_EQ(all.back()["event"], "done");
  words.erase(words.begin() + 2);
  const auto plain = troupe(words);
  EXPECT_EQ(plain.code, 0);
  EXPECT_NE(plain.err.find("the loss did not fall: "), std::string::npos) << plain.err;
  EXPECT_EQ(plain.out.find("the loss did not fall"), std::string::npos) << "the warning belongs to stderr";
}

// The check is made before training starts.
TEST_F(train_command, refuses_an_unwritable_file_before_training) {
  const auto job = write("job.toml", tiny_job());
  for (const char* flag : {"--out", "--checkpoint"}) {
    const auto o = troupe({"train", job, "--json", flag, path("no/such/folder/w.safetensors")});
    EXPECT_EQ(o.code, 2);
    const auto all = objects(o.out);
    ASSERT_EQ(all.size(), 1u) << o.out;
    EXPECT_EQ(all[0]["event"], "error");
    EXPECT_EQ(all[0]["where"], path("no/such/folder/w.safetensors"));
  }
}

TEST_F(train_command, refuses_a_trace_of_a_cluster_when_its_folder_is_missing) {
  const auto o =
      troupe({"train", write("job.toml", tiny_job()), "--cluster", path("cluster.toml"), "--trace", path("missing/run.pftrace")});
  EXPECT_EQ(o.code, 2);
  EXPECT_NE(o.err.find(path("missing/run.pftrace")), std::string::npos) << o.err;
}

// Output files that become unwritable during training, e.g. because a folder is removed.
class lost_place : public train_command {
 protected:
  lost_place() {
    std::filesystem::create_directories(path("second"));
    std::filesystem::create_directories(path("gone"));
    ::setenv("TMPDIR", path("second").c_str(), 1);
  }
  ~lost_place() override { ::unsetenv("TMPDIR"); }
  // Trains with these options and removes the folder `gone` after the first step. With `stop`, a
  // signal stops the run.
  outcome train(std::vector<std::string> words, bool stop) {
    words.insert(words.begin(), {"train", write("job.toml", tiny_job()), "--json"});
    if (stop) words.insert(words.end(), {"--set", "train.finish.steps=1000000"});
    if (!stop) words.insert(words.end(), {"--set", "train.finish.steps=4000"});
    child c(troupe_program(), words, folder_);
    std::string line;
    EXPECT_TRUE(c.read_line(line));
    std::filesystem::remove_all(path("gone"));
    if (stop) c.send(SIGINT);
    return c.wait();
  }
  // The only file in the second place; empty if there is none.
  std::string in_second_place() const {
    std::string found;
    if (!std::filesystem::exists(path("second"))) return found;
    for (const auto& e : std::filesystem::recursive_directory_iterator(path("second")))
      if (e.is_regular_file()) found = e.path().string();
    return found;
  }
};

TEST_F(lost_place, writes_weights_to_a_second_place_and_names_it) {
  const auto o = train({"--out", path("gone/w.safetensors")}, false);
  EXPECT_EQ(o.code, 1);
  ASSERT_EQ(last(o)["event"], "error") << last(o);
  EXPECT_EQ(last(o)["where"], path("gone/w.safetensors"));
  const auto message = last(o)["message"].get<std::string>();
  const auto file = in_second_place();
  ASSERT_FALSE(file.empty()) << message;
  EXPECT_NE(message.find("No such file or directory"), std::string::npos) << message;
  EXPECT_NE(message.find(file), std::string::npos) << message << " does not name " << file;
  const auto kept = read_safetensors(file);
  ASSERT_TRUE(kept) << kept.error().to_string();
  const auto unbroken = troupe({"train", path("job.toml"), "--json", "--set", "train.finish.steps=4000"});
  EXPECT_EQ(weights_sha256(kept->named), hash_of(unbroken));
}

TEST_F(lost_place, the_error_names_both_places_when_the_second_one_fails_too) {
  ::setenv("TMPDIR", path("gone").c_str(), 1);
  const auto o = train({"--out", path("gone/w.safetensors")}, false);
  EXPECT_EQ(o.code, 1);
  ASSERT_EQ(last(o)["event"], "error") << last(o);
  EXPECT_EQ(last(o)["where"], path("gone/w.safetensors"));
  EXPECT_NE(last(o)["message"].get<std::string>().find("nor in " + path("gone")), std::string::npos) << last(o);
}

TEST_F(lost_place, writes_only_the_checkpoint_to_the_second_place_when_stopped) {
  const auto o = train({"--checkpoint", path("gone/c.safetensors")}, true);
  EXPECT_EQ(o.code, 1);
  ASSERT_EQ(last(o)["event"], "error") << last(o);
  EXPECT_NE(last(o)["where"].get<std::string>().find(path("gone/c.safetensors")), std::string::npos) << last(o);
  const auto file = in_second_place();
  ASSERT_FALSE(file.empty()) << last(o);
  EXPECT_NE(last(o)["message"].get<std::string>().find(file), std::string::npos) << last(o);
  const auto kept = load_checkpoint(file);
  EXPECT_TRUE(kept) << kept.error().to_string();
}

TEST_F(train_command, starting_from_weights_ignores_the_momentum_of_a_checkpoint) {
  const auto job = write("job.toml", tiny_job());
  child c(troupe_program(), {"train", job, "--json", "--checkpoint", path("c.safetensors"), "--set", "train.finish.steps=1000000"},
          folder_);
  std::string line;
  ASSERT_TRUE(c.read_line(line));
  c.send(SIGINT);
  ASSERT_EQ(c.wait().code, 130);
  auto kept = load_checkpoint(path("c.safetensors")).value();
  std::erase_if(kept.named, [](const auto& n) { return n.first.find('@') != std::string::npos; });
  ASSERT_TRUE(write_safetensors(path("w.safetensors"), kept.named));
  const auto from_weights = hash_of(troupe({"train", job, "--json", "--weights", path("w.safetensors")}));
  EXPECT_EQ(hash_of(troupe({"train", job, "--json", "--weights", path("c.safetensors")})), from_weights);
}

}  // namespace
}  // namespace troupe
