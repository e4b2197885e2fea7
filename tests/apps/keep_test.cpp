// `troupe train` with stored state: the checkpoint folder of a job, resuming from the newest
// checkpoint, and weights files that match in part.
#include <signal.h>

#include "runtime/record/checkpoint_home.hpp"
#include "tests/apps/child.hpp"

namespace troupe {
namespace {

using namespace testing_apps;

class keep_command : public command_test {
 protected:
  static std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  static nlohmann::json last(const outcome& o) {
    const auto list = objects(o.out);
    return list.empty() ? nlohmann::json() : list.back();
  }
  static std::string hash_of(const outcome& o) { return last(o).value("weights_sha256", "none"); }
  // Trains until it has printed `steps` lines, then stops it by a signal.
  outcome stopped(const std::vector<std::string>& words, int steps) {
    child c(troupe_program(), words, folder_);
    std::string line;
    for (int i = 0; i < steps; ++i) EXPECT_TRUE(c.read_line(line)) << "no step " << i;
    c.send(SIGTERM);
    return c.wait();
  }
};

TEST_F(keep_command, resume_auto_continues_from_the_newest_checkpoint) {
  const auto dir = path("kept");
  const std::vector<std::string> words{"train",
                                       write("job.toml", tiny_job()),
                                       "--json",
                                       "--set",
                                       "eval.every=0",
                                       "--set",
                                       "train.finish.steps=6000",
                                       "--set",
                                       "checkpoint.dir=\"" + dir + "\"",
                                       "--set",
                                       "checkpoint.every=10"};
  const auto unbroken = hash_of(troupe(words));
  const auto automatic = with(words, {"--resume", "auto"});
  // Each run is stopped early and continues where the previous one stopped.
  std::filesystem::remove_all(dir);
  std::uint64_t before = 0;
  for (int run = 0; run < 3; ++run) {
    const auto half = stopped(automatic, 60);
    ASSERT_EQ(half.code, 143) << half.err;
    const auto steps = last(half)["steps"].get<std::uint64_t>();
    EXPECT_GT(steps, before);
    EXPECT_GT(of_kind(objects(half.out), "step").at(0)["step"].get<std::uint64_t>(), before);
    before = steps;
  }
  EXPECT_EQ(runs_of(checkpoint_home(dir, "tiny")).size(), 3u) << "every run has a separate folder";
  for (const auto& run : runs_of(checkpoint_home(dir, "tiny")))
    EXPECT_EQ(checkpoint_files(run).size(), 2u) << "[checkpoint] keep is 2 by default";
  const auto whole = troupe(automatic);
  ASSERT_EQ(whole.code, 0) << whole.err;
  const auto begins = of_kind(objects(whole.out), "begins");
  ASSERT_EQ(begins.size(), 1u);
  EXPECT_EQ(begins[0]["step"], before);
  EXPECT_NE(begins[0]["message"].get<std::string>().find("continues from " + dir + "/tiny/run-"), std::string::npos) << begins[0];
  EXPECT_EQ(hash_of(whole), unbroken);
  // Another job of this name cannot continue from the checkpoint: it is refused, and does not start
  // from the beginning.
  const auto other = troupe(with(automatic, {"--set", "job.seed=4"}));
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(last(other)["message"].get<std::string>().find("job.seed is 3 in the checkpoint"), std::string::npos) << other.out;
}

TEST_F(keep_command, resume_auto_uses_the_default_file_when_there_is_no_folder) {
  const std::vector<std::string> words{"train", write("job.toml", tiny_job()), "--json",   "--set", "eval.every=0",
                                       "--set", "train.finish.steps=6000",     "--resume", "auto"};
  const auto half = stopped(words, 30);  // starts at step 0: there is no checkpoint
  ASSERT_EQ(half.code, 143) << half.err;
  const auto on = troupe(words);
  EXPECT_EQ(of_kind(objects(on.out), "begins").at(0)["step"], last(half)["steps"]);
}

TEST_F(keep_command, refuses_an_unusable_checkpoint_folder_before_training) {
  write("file", "x");
  const auto job = write("job.toml", tiny_job());
  const auto o = troupe({"train", job, "--json", "--set", "checkpoint.dir=\"" + path("file") + "\""});
  EXPECT_EQ(o.code, 2);
  ASSERT_EQ(objects(o.out).size(), 1u) << o.out;
  EXPECT_NE(last(o)["message"].get<std::string>().find(path("file") + "/tiny: cannot create"), std::string::npos) << o.out;
  const auto relative = troupe({"train", job, "--json", "--set", "checkpoint.dir=\"kept\""});
  EXPECT_EQ(relative.code, 2);
  EXPECT_NE(last(relative)["message"].get<std::string>().find("must be an absolute path"), std::string::npos);
}

TEST_F(keep_command, match_names_loads_parameters_by_name_and_shape) {
  const auto job = write("job.toml", tiny_job());
  ASSERT_EQ(troupe({"train", job, "--out", path("w.safetensors")}).code, 0);
  const std::vector<std::string> words{"train", job, "--json", "--weights", path("w.safetensors")};
  // All parameters match, so all are loaded.
  EXPECT_EQ(hash_of(troupe(with(words, {"--match", "names"}))), hash_of(troupe(words)));
  const std::vector<std::string> other{"--set", "layer.ip2.outputs=7", "--set", "data.classes=7"};
  EXPECT_EQ(troupe(with(words, other)).code, 2) << "without --match names";
  const auto part = troupe(with(with(words, other), {"--match", "names"}));
  ASSERT_EQ(part.code, 0) << part.out << part.err;
  const auto begins = of_kind(objects(part.out), "begins");
  ASSERT_EQ(begins.size(), 1u) << part.out;
  const auto text = begins[0]["message"].get<std::string>();
  EXPECT_NE(text.find(path("w.safetensors") + ": "), std::string::npos) << text;
  EXPECT_NE(text.find(" parameters are taken; filled: ip2.weight (of shape "), std::string::npos) << text;
  EXPECT_NE(hash_of(part), hash_of(troupe(with({"train", job, "--json"}, other)))) << "the matching parameters were not loaded";
  const auto few = troupe(with(with(words, {"--match", "names"}), {"--set", "layer.ip1.outputs=3"}));
  ASSERT_EQ(few.code, 0) << few.out << few.err;
  const auto filled = of_kind(objects(few.out), "begins");
  ASSERT_EQ(filled.size(), 1u) << few.out;
  EXPECT_NE(filled[0]["message"].get<std::string>().find(": 1 of 4 parameters are taken; filled: ip1.weight "), std::string::npos)
      << few.out;
}

}  // namespace
}  // namespace troupe
