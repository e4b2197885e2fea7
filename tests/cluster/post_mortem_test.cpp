// A job that fails on daemons leaves a post-mortem on each of its nodes. A replay of them together
// reproduces the error.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/data/packed.hpp"
#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {
namespace {

namespace fs = std::filesystem;

class cluster_post_mortem : public cluster_test {
 protected:
  // The post-mortems of node `n`, oldest first.
  std::vector<fs::path> left_by(const std::string& n) const {
    std::vector<fs::path> all;
    std::error_code none;
    for (const auto& f : fs::directory_iterator(fs::path(path("state")) / n / "post-mortem", none)) all.push_back(f.path());
    std::sort(all.begin(), all.end());
    return all;
  }
  static std::string read(const fs::path& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // Runs a job whose loss diverges. `one` and `two`: the post-mortems of n1 and n2.
  void fail_on_two_nodes(run_result& failed, fs::path& one, fs::path& two) {
    make_cluster(2);
    start_all();
    auto set = workers(2, 2);
    set.emplace_back("train.dynamics.lr=1e20");
    failed = run(tiny_job(), set);
    ASSERT_EQ(failed.outcome.exit_code(), 1);
    const auto first = left_by("n1"), second = left_by("n2");
    ASSERT_FALSE(first.empty());
    ASSERT_FALSE(second.empty());
    one = first.front(), two = second.front();
  }
  // Runs `troupe sim --replay`. Returns its exit code and output.
  std::pair<int, std::string> replay(const std::vector<fs::path>& folders) const {
    std::vector<std::string> changes{std::string(TROUPE_BIN_DIR) + "/troupe", "sim", "--json", "--replay"};
    for (const auto& f : folders) changes.push_back(f.string());
    process p(changes, folder_);
    const int code = p.wait();
    return {code, p.out() + p.log()};
  }
  // The tiny job on packed data with invalid labels.
  std::string damaged_job() const {
    source_registry all;
    add_stock_sources(all);
    const auto* made_up = all.find("synthetic");
    const options given{{{"shape", std::vector<std::int64_t>{1, 8, 8}},
                         {"classes", std::int64_t{4}},
                         {"examples", std::int64_t{480}},
                         {"test_examples", std::int64_t{48}}}};
    EXPECT_TRUE(pack(*made_up->open(check_options(given, made_up->specs), 3), path("data.pack")).has_value());
    std::fstream f(path("data.pack"), std::ios::in | std::ios::out | std::ios::binary);
    f.seekp(4096 + 480 * 64 * 4);
    for (int i = 0; i < 480; ++i) f.write("\x00\x00\x00\x7f", 4);
    auto text = tiny_job();
    const auto from = text.find("source"), end = text.find("batch = 24");
    return text.replace(from, end - from, "source = \"packed\"\npath = \"" + path("data.pack") + "\"\n");
  }
};

TEST_F(cluster_post_mortem, the_replay_of_both_nodes_ends_with_the_same_error) {
  run_result failed;
  fs::path one, two;
  fail_on_two_nodes(failed, one, two);
  if (HasFatalFailure()) return;
  EXPECT_EQ(failed.text("post_mortem"), "n1:" + one.string() + ", n2:" + two.string());
  const auto both = replay({one, two});
  EXPECT_EQ(both.first, 0) << both.second;
  EXPECT_NE(both.second.find("\"came_again\":true"), std::string::npos) << both.second;
  // In lockstep the result does not depend on the order in which n2's roles received messages.
  const auto half = replay({one});
  EXPECT_NE(half.second.find("\"came_again\":true"), std::string::npos) << half.second;
}

TEST_F(cluster_post_mortem, the_coordinators_post_mortem_has_the_events_and_others_refer_to_it) {
  run_result failed;
  fs::path one, two;
  fail_on_two_nodes(failed, one, two);
  if (HasFatalFailure()) return;
  std::istringstream lines(read(one / "events.jsonl"));
  std::vector<nlohmann::json> announced;
  for (std::string line; std::getline(lines, line);) announced.push_back(nlohmann::json::parse(line));
  std::size_t steps = 0;
  for (const auto& e : failed.events)
    if (e.event.is<step_event>()) {
      ++steps;
      const auto same = [&](const auto& t) { return t["event"] == "step" && t["step"] == e.event.step; };
      EXPECT_TRUE(std::any_of(announced.begin(), announced.end(), same)) << "step " << e.event.step;
    }
  EXPECT_GT(steps, 0u);
  EXPECT_NE(read(one / "report.txt").find("\nevents     events.jsonl\n"), std::string::npos);
  EXPECT_NE(read(two / "report.txt").find("\nevents     on node n1, with the job's coordinator\n"), std::string::npos)
      << read(two / "report.txt");
}

// After the first failure the roles restart from state of the shards, which is not stored, so only
// the first plan can be replayed.
TEST_F(cluster_post_mortem, a_role_that_fails_twice_leaves_a_post_mortem_of_both_plans) {
  data_ = {folder_.string()};
  make_cluster(2);
  start_all();
  const auto set = workers(2, 2);
  ASSERT_EQ(run(damaged_job(), set).outcome.exit_code(), 1);
  for (const char* n : {"n1", "n2"}) ASSERT_TRUE(daemon(n).wait_log("has failed; post-mortem: ", 10s)) << n;
  const auto one = left_by("n1"), two = left_by("n2");
  ASSERT_EQ(one.size(), 2u);
  ASSERT_EQ(two.size(), 2u);
  const auto first = replay({one[0], two[0]});
  EXPECT_EQ(first.first, 0) << first.second;
  EXPECT_NE(first.second.find("are damaged: "), std::string::npos) << first.second;
  EXPECT_NE(first.second.find("\"came_again\":true"), std::string::npos) << first.second;
  const auto last = replay({one[1], two[1]});
  EXPECT_EQ(last.first, 2);
  EXPECT_NE(last.second.find("this plan began with state handed over by running nodes, which is not saved"), std::string::npos)
      << last.second;
}

}  // namespace
}  // namespace troupe::testing_cluster
