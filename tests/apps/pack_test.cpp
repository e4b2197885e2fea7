// `troupe pack`, and jobs that read what it wrote.
#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/apps/child.hpp"

namespace troupe {
namespace {

using namespace testing_apps;

class pack_command : public command_test {
 protected:
  static std::string with_data(const std::string& lines) {
    auto text = tiny_job();
    const auto from = text.find("source"), end = text.find("batch = 16");
    return text.replace(from, end - from, lines + "\n");
  }
  std::string packed_job(const std::string& file, const std::string& more = {}) const {
    return write("packed.toml", with_data("source = \"packed\"\npath = \"" + file + "\"\n" + more));
  }
  static nlohmann::json last(const outcome& o) { return objects(o.out).back(); }
};

TEST_F(pack_command, a_packed_file_gives_the_same_weights_as_its_source) {
  std::string rows = "label";
  for (int k = 0; k < 64; ++k) rows += ",p" + std::to_string(k);
  for (int i = 0; i < 100; ++i) {
    rows += "\n" + std::to_string(i % 4);
    for (int k = 0; k < 64; ++k) rows += "," + std::to_string((i * 37 + k * (i % 4 + 1) * 11) % 97) + "e-2";
  }
  write("rows.csv", rows + "\n");
  const auto csv =
      "source = \"csv\"\npath = \"" + path("rows.csv") + "\"\nlabel = \"label\"\nshape = [1, 8, 8]\ntest_fraction = 0.2\n";
  for (const std::string& augment : {std::string(), std::string("augment = { pad = 1, crop = 8, mirror = true }\n")})
    for (const auto& job : {write("csv.toml", with_data(csv + augment)), write("synthetic.toml", tiny_job())}) {
      const bool is_csv = job.find("csv") != std::string::npos;
      const auto made = troupe({"pack", job, "--out", path("data.pack"), "--json"});
      ASSERT_EQ(made.code, 0) << made.out << made.err;
      ASSERT_EQ(objects(made.out).size(), 1u);
      EXPECT_EQ(last(made)["event"], "pack");
      EXPECT_EQ(last(made)["train"], is_csv ? 80 : 320);
      EXPECT_EQ(last(made)["test"], is_csv ? 20 : 50);
      EXPECT_EQ(last(made)["values"], "f32");
      EXPECT_EQ(last(made)["bytes"], std::filesystem::file_size(path("data.pack")));
      const auto want = troupe({"train", job, "--json"});
      const auto got = troupe({"train", packed_job(path("data.pack"), is_csv ? augment : ""), "--json"});
      ASSERT_EQ(got.code, 0) << got.out;
      EXPECT_EQ(last(got)["weights_sha256"], last(want)["weights_sha256"]);
      EXPECT_EQ(last(got)["test_accuracy"], last(want)["test_accuracy"]);
    }
}

// A signal stops the job in the middle of an epoch. The remaining examples, their order and every
// image's crop are those of an unbroken run.
TEST_F(pack_command, a_resumed_job_ends_with_the_weights_of_an_unbroken_run) {
  ASSERT_EQ(troupe({"pack", write("job.toml", tiny_job()), "--out", path("data.pack")}).code, 0);
  const auto job = packed_job(path("data.pack"), "augment = { pad = 1, crop = 8, mirror = true }\n");
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> words{
        "train", job, "--json", "--set", "train.finish={steps=2000}", "--set", "train.sampler={kind=\"shuffle\"}"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const auto unbroken = troupe(with({}));
  ASSERT_EQ(unbroken.code, 0) << unbroken.out;
  child c(troupe_program(), with({"--checkpoint", path("c.safetensors")}), folder_);
  std::string line;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(c.read_line(line));
  c.send(SIGTERM);
  const auto stopped = c.wait();
  ASSERT_TRUE(std::filesystem::exists(path("c.safetensors"))) << stopped.out;
  const auto resumed = troupe(with({"--resume", path("c.safetensors")}));
  ASSERT_EQ(resumed.code, 0) << resumed.out;
  EXPECT_GT(objects(resumed.out).front()["step"], 1);
  EXPECT_EQ(last(resumed)["weights_sha256"], last(unbroken)["weights_sha256"]);
}

TEST_F(pack_command, prints_how_to_use_the_file) {
  const auto o = troupe({"pack", write("job.toml", tiny_job()), "--out", path("data.pack")});
  EXPECT_EQ(o.code, 0);
  EXPECT_EQ(o.err, "");
  EXPECT_NE(o.out.find("320 training and 50 test examples of 1x8x8 (f32)"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("source = \"packed\""), std::string::npos) << o.out;
}

TEST_F(pack_command, errors_exit_with_2_and_name_the_position) {
  const auto job = write("job.toml", tiny_job());
  EXPECT_EQ(troupe({"pack", job}).code, 2);
  EXPECT_EQ(troupe({"pack", job, "--out", path("no/folder/x")}).code, 2);
  const auto bad = troupe({"pack", write("bad.toml", with_data("source = \"csv\"\npath = \"/no/such.csv\"")), "--out", path("x")});
  EXPECT_EQ(bad.code, 2);
  EXPECT_NE(bad.err.find("bad.toml:6:1: /no/such.csv: cannot open"), std::string::npos) << bad.err;
}

TEST_F(pack_command, a_damaged_block_ends_the_job_with_an_error_naming_the_file) {
  const auto job = write("job.toml", tiny_job());
  ASSERT_EQ(troupe({"pack", job, "--out", path("data.pack")}).code, 0);
  {
    std::fstream f(path("data.pack"), std::ios::in | std::ios::out | std::ios::binary);
    f.seekp(4096 + 1000);
    f.put('!');
  }
  const auto o = troupe({"train", packed_job(path("data.pack")), "--json"});
  EXPECT_EQ(o.code, 1);
  EXPECT_EQ(last(o)["event"], "error");
  const auto message = last(o)["message"].get<std::string>();
  EXPECT_NE(message.find(path("data.pack") + ": training examples 0 to "), std::string::npos) << message;
  const auto cut = packed_job(path("cut.pack"));
  std::filesystem::copy_file(path("data.pack"), path("cut.pack"));
  std::filesystem::resize_file(path("cut.pack"), 5000);
  const auto refused = troupe({"train", cut});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("packed.toml:6:1: "), std::string::npos) << refused.err;
}

}  // namespace
}  // namespace troupe
