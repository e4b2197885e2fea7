// `include` of job files: how documents are merged, what is sent to a daemon, and limits.
#include "runtime/node/config/include.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "runtime/node/config/prepare_text.hpp"
#include "tests/node/job_fixture.hpp"
#include "tests/node/same_job.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe {
namespace {

using namespace job_test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using names = std::vector<std::string>;

class include_files : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    const auto path = dir_.file(name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  // The text that a client sends.
  static std::string sent(const std::string& path) {
    const auto text = read_config_text(path);
    if (!text) throw std::runtime_error(shown(text.error()));
    return *text;
  }
  static std::string mistakes(const std::string& path, const names& set = {}) {
    const auto spec = read_job_file(path, every_table(), set);
    return spec ? "" : shown(spec.error());
  }
  static job_spec read(const std::string& path, const names& set = {}) {
    auto spec = read_job_file(path, every_table(), set);
    if (!spec) throw std::runtime_error(shown(spec.error()));
    return *std::move(spec);
  }

  test::temp_dir dir_;
};

const std::string data = "[data]\nsource = \"synthetic\"\nbatch = 8\n";
const std::string train = "[train]\nfinish = { steps = 3 }\n[train.dynamics]\nrule = \"momentum\"\nlr = 0.1\nmomentum = 0.8\n";
const std::string model =
    "[[layer]]\nname = \"ip\"\ntype = \"linear\"\ninputs = [\"data\"]\noutputs = 10\n"
    "[[layer]]\nname = \"loss\"\ntype = \"softmax_loss\"\ninputs = [\"ip\", \"label\"]\n";

TEST_F(include_files, are_the_job_with_all_keys_in_one_file) {
  write("parts/data.toml", data);
  write("parts/train.toml", "include = \"data.toml\"\n" + train);
  const auto job = write("job.toml", "include = \"parts/train.toml\"\n" + model);
  EXPECT_EQ(differences(read(job), read(write("whole/job.toml", data + train + model))), names{});
}

TEST_F(include_files, have_keys_that_later_and_including_files_override) {
  write("a.toml", data + train + "[job]\nseed = 3\nname = \"a\"\n");
  write("b.toml", "[job]\nseed = 4\n[data]\nbatch = 16\n");
  const auto job = write("job.toml", "include = [\"a.toml\", \"b.toml\"]\n" + model + "[train.dynamics]\nlr = 0.5\n");
  const auto s = read(job);
  EXPECT_EQ(s.name, "a");
  EXPECT_EQ(s.seed, 4u);
  EXPECT_EQ(s.data.batch, 16);
  EXPECT_EQ(s.train.lr, 0.5);
  EXPECT_EQ(s.train.rule.values.real("momentum"), 0.8);
  EXPECT_EQ(*s.train.finish.steps, 3);
  EXPECT_EQ(read(job, {"job.seed=9"}).seed, 9u);
  EXPECT_EQ(s.train.key_at.at("dynamics.momentum").to_string(), dir_.file("a.toml") + ":9:1");
}

TEST_F(include_files, have_layers_and_blocks_before_those_of_the_file) {
  write("library.toml",
        "[[block]]\nname = \"twice\"\nlayer = [ { name = \"a\", type = \"relu\", inputs = \"in\" } ]\n"
        "[[layer]]\nname = \"first\"\ntype = \"flatten\"\ninputs = \"data\"\n");
  write("again.toml", "include = \"library.toml\"\n");
  const auto job =
      write("job.toml", "include = [\"library.toml\", \"again.toml\"]\n" + data + train +
                            "[[block]]\nname = \"own\"\nlayer = [ { name = \"b\", type = \"relu\", inputs = \"in\" } ]\n"
                            "[[layer]]\nname = \"x\"\nblock = \"twice\"\ninputs = \"first\"\nrepeat = 2\n"
                            "[[layer]]\nname = \"y\"\nblock = \"own\"\ninputs = \"x\"\n" +
                            model);
  names all;
  for (const auto& l : read(job).layers) all.push_back(l.name);
  EXPECT_THAT(all, ElementsAre("first", "x_1_a", "x_2_a", "y_b", "ip", "loss")) << "a file counts once";
}

TEST_F(include_files, are_part_of_the_text_that_a_daemon_reads_with_the_same_mistakes) {
  const auto part = write("parts/train.toml", data + train);
  const auto job = write("job.toml", "include = \"parts/train.toml\"\n" + model);
  const auto text = sent(job);
  std::filesystem::remove(part);
  const auto there = parse_job(text, job, every_table());
  ASSERT_TRUE(there) << shown(there.error());
  EXPECT_EQ(there->train.key_at.at("dynamics.momentum").to_string(), part + ":9:1");
  const auto limited = prepare_text({text, job, {}, job_limits{}}, all_tables());
  EXPECT_TRUE(limited) << shown(limited.error());
  const auto wrong = parse_job(text, job, every_table(), {"layer.ip.outputs=0"});
  ASSERT_FALSE(wrong);
  write("parts/train.toml", data + train + "momentun = 1\n");
  EXPECT_THAT(mistakes(job), HasSubstr(part + ":10:1: [train.dynamics]: unknown key 'momentun'; did you mean 'momentum'?"));
}

TEST_F(include_files, that_did_not_come_with_the_text_are_not_opened) {
  const auto part = write("secret.toml", data + train);
  for (const auto& name : {std::string("secret.toml"), part}) {
    const auto text = "include = \"" + name + "\"\n" + model;
    const auto made = prepare_text({text, dir_.file("job.toml"), {}, job_limits{}}, all_tables());
    ASSERT_FALSE(made);
    EXPECT_THAT(shown(made.error()), HasSubstr(dir_.file("job.toml") + ":1:11: '" + part.substr(0, 70)));
    EXPECT_THAT(shown(made.error()), HasSubstr("did not come with the text of the job, and a job's text opens no files: submit"));
  }
}

TEST_F(include_files, that_are_wrong_are_reported_where_they_are_named) {
  const auto job = dir_.file("job.toml");
  write("job.toml", "include = \"none.toml\"\n");
  EXPECT_THAT(mistakes(job), HasSubstr(job + ":1:11: '" + dir_.file("none.toml") + "': there is no such file"));
  write("job.toml", "include = [\"/dev/null\", 3]\n");
  EXPECT_THAT(mistakes(job), HasSubstr(job + ":1:12: '/dev/null': this is a device, not a regular file"));
  EXPECT_THAT(mistakes(job), HasSubstr(job + ":1:25: 'include' must be the path of a job file, or a list of them"));
  write("bad.toml", "[data\n");
  write("job.toml", "include = \"bad.toml\"\n");
  EXPECT_THAT(mistakes(job), HasSubstr(dir_.file("bad.toml") + ":1:"));
  write("a.toml", "include = \"sub/../b.toml\"\n");
  write("b.toml", "x = 1\ninclude = \"a.toml\"\n");
  write("job.toml", "include = \"a.toml\"\n");
  const auto cycle = mistakes(job);
  EXPECT_THAT(cycle,
              HasSubstr(dir_.file("b.toml") + ":2:11: '" + dir_.file("a.toml") + "' includes itself: " + job + " includes "));
  write("job.toml", data + train + model);
  EXPECT_THAT(mistakes(job, {"include=\"a.toml\""}), HasSubstr("'include' is read before overrides: write it into the file"));
  EXPECT_THAT(mistakes(write("odd.toml", "included = 3\n" + data + train + model)), HasSubstr("programs write it"));
}

TEST_F(include_files, are_limited_in_depth_number_and_size) {
  for (int i = 0; i < 12; ++i) write("d" + std::to_string(i) + ".toml", "include = \"d" + std::to_string(i + 1) + ".toml\"\n");
  write("d12.toml", "");
  EXPECT_THAT(mistakes(dir_.file("d0.toml")), HasSubstr("is included more than 8 files deep"));
  EXPECT_EQ(mistakes(write("ok.toml", "include = \"d5.toml\"\n" + data + train + model)), "");
  std::string many;
  for (int i = 0; i < 70; ++i) {
    write("m" + std::to_string(i) + ".toml", "");
    many += "\"m" + std::to_string(i) + ".toml\", ";
  }
  EXPECT_THAT(mistakes(write("many.toml", "include = [" + many + "]\n")), HasSubstr("a job includes more than 64 files"));
  write("large1.toml", "#" + std::string(700'000, ' ') + "\n");
  write("large2.toml", "#" + std::string(700'000, ' ') + "\n");
  EXPECT_THAT(mistakes(write("large.toml", "include = [\"large1.toml\", \"large2.toml\"]\n")),
              HasSubstr("larger than 1 MiB together"));
}

}  // namespace
}  // namespace troupe
