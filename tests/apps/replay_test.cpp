// A failed run leaves a post-mortem folder, and `troupe sim --replay` reproduces its failure.
#include <filesystem>
#include <fstream>

#include "runtime/trace/trace_file.hpp"
#include "tests/apps/child.hpp"

namespace troupe {
namespace {

using namespace testing_apps;
namespace fs = std::filesystem;

class replay_command : public command_test {
 protected:
  // Runs a job that fails; returns the last event.
  nlohmann::json fail(const std::string& job, const std::vector<std::string>& more) {
    std::vector<std::string> words{"train", job, "--json", "--threads", "2"};
    words.insert(words.end(), more.begin(), more.end());
    const auto o = troupe(words);
    EXPECT_EQ(o.code, 1) << o.out << o.err;
    const auto all = objects(o.out);
    return all.empty() ? nlohmann::json() : all.back();
  }
  // The last event of a replay.
  nlohmann::json replay(const std::vector<std::string>& folders, int code = 0) {
    std::vector<std::string> words{"sim", "--json", "--replay"};
    words.insert(words.end(), folders.begin(), folders.end());
    const auto o = troupe(words);
    EXPECT_EQ(o.code, code) << o.out << o.err;
    const auto all = objects(o.out);
    return all.empty() ? nlohmann::json() : all.back();
  }
  nlohmann::json blown_up(const std::vector<std::string>& more = {}) {
    auto words = more;
    for (const char* w : {"--set", "train.dynamics.lr=1e20", "--set", "topology.workers_per_group=2"}) words.emplace_back(w);
    return fail(write("job.toml", tiny_job()), words);
  }
};

TEST_F(replay_command, of_a_diverged_run_ends_with_the_same_error_at_the_same_step) {
  const auto error = blown_up();
  const std::string folder = error["post_mortem"];
  ASSERT_TRUE(fs::is_directory(path(folder))) << folder;
  EXPECT_EQ(fs::status(path(folder)).permissions(), fs::perms::owner_all);
  for (const auto& f : fs::directory_iterator(path(folder)))
    EXPECT_EQ(f.status().permissions(), fs::perms::owner_read | fs::perms::owner_write) << f.path();
  for (const char* name : {"report.txt", "job.toml", "plan.json", "events.jsonl", "roles.json", "messages.bin", "last.pftrace"})
    EXPECT_TRUE(fs::is_regular_file(fs::path(path(folder)) / name)) << name;
  const auto trace = read_trace_file(path(folder + "/last.pftrace"));
  ASSERT_TRUE(trace);
  EXPECT_FALSE(trace->slices.empty());
  const auto again = replay({folder});
  EXPECT_EQ(again["event"], "replayed");
  EXPECT_EQ(again["followed"], true) << again;
  EXPECT_EQ(again["came_again"], true) << again;
  EXPECT_GT(again["messages"].get<int>(), 10);
  const auto o = troupe({"sim", "--replay", folder});
  EXPECT_EQ(o.code, 0);
  EXPECT_NE(o.out.find(error["message"].get<std::string>()), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("The error occurred again."), std::string::npos) << o.out;
}

TEST_F(replay_command, of_bad_data_fails_in_the_same_role) {
  EXPECT_EQ(troupe({"pack", write("tiny.toml", tiny_job()), "--out", path("data.pack")}).code, 0);
  {
    std::fstream f(path("data.pack"), std::ios::in | std::ios::out | std::ios::binary);
    f.seekp(4096 + 320 * 64 * 4);
    for (int i = 0; i < 320; ++i) f.write("\x00\x00\x00\x7f", 4);
  }
  auto text = tiny_job();
  const auto from = text.find("source"), end = text.find("batch = 16");
  text.replace(from, end - from, "source = \"packed\"\npath = \"data.pack\"\n");
  const auto error = fail(write("job.toml", text), {"--post-mortem", path("found")});
  EXPECT_NE(error["where"].get<std::string>().find("loader"), std::string::npos) << error;
  const std::string folder = error["post_mortem"];
  EXPECT_EQ(fs::path(folder).parent_path(), path("found"));
  const auto again = replay({folder});
  EXPECT_EQ(again["came_again"], true) << again;
  EXPECT_EQ(again["step"], 0);
}

TEST_F(replay_command, starts_from_the_initial_weights_of_the_failed_run) {
  ASSERT_EQ(troupe({"train", write("job.toml", tiny_job()), "--out", path("w.safetensors"), "--set", "train.finish.steps=3"}).code,
            0);
  const std::string folder = blown_up({"--weights", path("w.safetensors")})["post_mortem"];
  EXPECT_EQ(replay({folder})["came_again"], true);
  std::ofstream(path("w.safetensors"), std::ios::app) << " ";
  const auto refused = replay({folder}, 2);
  EXPECT_NE(refused["message"].get<std::string>().find("it has changed since"), std::string::npos) << refused;
}

TEST_F(replay_command, refuses_damaged_and_unrelated_folders_by_name) {
  const std::string one = blown_up()["post_mortem"];
  const std::string other = blown_up({"--set", "pipeline.packets=8"})["post_mortem"];
  EXPECT_NE(replay({one, other}, 2)["message"].get<std::string>().find("it belongs to another plan"), std::string::npos);
  EXPECT_NE(replay({one, one}, 2)["message"].get<std::string>().find("it belongs to node local, and "), std::string::npos);
  EXPECT_NE(replay({"nowhere"}, 2)["message"].get<std::string>().find("no such folder"), std::string::npos);
  const auto log = fs::path(path(one)) / "messages.bin";
  fs::resize_file(log, fs::file_size(log) - 7);
  EXPECT_NE(replay({one}, 1)["message"].get<std::string>().find("cut short"), std::string::npos);
  std::ofstream(fs::path(path(other)) / "plan.json") << "{\"format\": 1}";
  EXPECT_NE(replay({other}, 1)["message"].get<std::string>().find("it is damaged"), std::string::npos);
}

TEST_F(replay_command, the_newest_five_folders_stay_and_none_is_made_when_disabled) {
  for (int i = 0; i < 7; ++i) blown_up();
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& f : fs::directory_iterator(path("post-mortem"))) ++count;
  EXPECT_EQ(count, 5u);
  fs::remove_all(path("post-mortem"));
  EXPECT_FALSE(blown_up({"--post-mortem", "none"}).contains("post_mortem"));
  EXPECT_FALSE(fs::exists(path("post-mortem")));
}

}  // namespace
}  // namespace troupe
