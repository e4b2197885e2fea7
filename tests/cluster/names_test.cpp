// Names and texts that would disable views: clients with a certificate send them past the checks of
// `troupe`, or a journal of an earlier version holds them. The daemons answer all other clients.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/base/printable.hpp"
#include "runtime/cluster/controller/journal.hpp"
#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {
namespace {

using kind = repl_reply::kind;
using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

class cluster_names : public cluster_test {
 protected:
  void SetUp() override { make_cluster(2); }
  // The text of the tiny job with another line for its name.
  static std::string named(const std::string& name) {
    auto text = tiny_job();
    const std::string line = "name = \"tiny\"";
    return text.replace(text.find(line), line.size(), "name = \"" + name + "\"");
  }
  std::string troupe_jobs(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{std::string(TROUPE_BIN_DIR) + "/troupe", "jobs", "--cluster", path("cluster.toml")};
    words.insert(words.end(), more.begin(), more.end());
    process p(words, folder_);
    EXPECT_EQ(p.wait(20s), 0) << p.log();
    return p.out();
  }
  // Jobs that are over, as an earlier version has noted them.
  void write_journal(const std::vector<control::finished_job>& jobs) {
    std::filesystem::create_directories(path("state/n1"));
    std::ofstream out(path("state/n1/journal"), std::ios::binary);
    for (const auto& j : jobs) out << control::journal_over(j);
  }
  static control::finished_job failed(std::uint32_t number, const std::string& name, const std::string& why) {
    control::finished_job j;
    j.number = number, j.name = name, j.owner = "client", j.state = job_state::failed;
    j.last = {number, {7, error_event{why, "n1"}}};
    return j;
  }
};

TEST_F(cluster_names, jobs_with_names_of_900_kb_are_refused_and_views_answer) {
  start_all();
  for (int i = 0; i < 4; ++i) {
    const auto r = run(named(std::string(900'000, 'n')));
    EXPECT_EQ(r.outcome.how, cluster_outcome::end::refused);
    ASSERT_FALSE(r.outcome.messages.empty());
    EXPECT_THAT(r.outcome.messages.front(), StartsWith("job.toml:2:1: [job]: bad name: the name 'nnn"));
    EXPECT_THAT(r.outcome.messages.front(), HasSubstr("has 900000 bytes; at most 200 are allowed"));
  }
  for (const char* node : {"n1", "n2"})
    for (const char* line : {"jobs", "status", "nodes", "roles", "waits"}) EXPECT_EQ(ask(node, line).how, kind::ok) << node << line;
  EXPECT_EQ(run(tiny_job()).outcome.exit_code(), 0);
  EXPECT_THAT(ask("n2", "jobs").text, HasSubstr("(tiny) done"));
}

TEST_F(cluster_names, a_journal_of_an_earlier_version_with_long_texts_does_not_disable_views) {
  std::vector<control::finished_job> jobs;
  for (std::uint32_t i = 1; i <= 64; ++i)
    jobs.push_back(failed(i, i <= 4 ? std::string(900'000, 'n') : "old", "plugin: " + std::string(100'000, 'e')));
  write_journal(jobs);
  start_all();
  for (const char* node : {"n1", "n2"}) {
    const auto text = ask(node, "jobs");
    EXPECT_EQ(text.how, kind::ok);
    EXPECT_LT(text.text.size(), control::max_message);
    EXPECT_THAT(text.text, HasSubstr("job 64 (old) failed, step 7"));
    EXPECT_THAT(text.text, HasSubstr(" more bytes)"));
    EXPECT_THAT(text.text, HasSubstr("... long lines are cut: the answer has "));
    const auto o = json::parse(ask(node, "jobs", true).text);
    EXPECT_EQ(o["jobs"].size(), 64u);
    EXPECT_EQ(o["cut"], true);
    EXPECT_EQ(o["left_out"], 0);
    EXPECT_LE(o["jobs"][0]["name"].get<std::string>().size(), longest_name);
  }
  EXPECT_THAT(troupe_jobs(), HasSubstr("job 64 (old) failed"));
  EXPECT_EQ(run(tiny_job()).outcome.exit_code(), 0);
}

TEST_F(cluster_names, texts_of_clients_and_jobs_reach_no_terminal_and_no_log_as_they_are) {
  const std::string odd =
      "\x1b]0;title\x07\x1b[2J\xc2\x9b"
      "2J\xe2\x80\xae\nn1 forged line";
  write_journal({failed(1, "old" + odd, "plugin: " + odd)});
  start_all();
  auto s = cluster_submission{};
  s.where = coordinator();
  s.file = "job" + odd + ".toml";
  s.text = tiny_job();
  const auto refused = run_all(s);
  EXPECT_EQ(refused.outcome.how, cluster_outcome::end::refused);
  EXPECT_THAT(refused.outcome.messages.front(), HasSubstr("has the unprintable character \\x1b"));
  // The text of an override is quoted in an error that the daemon logs.
  EXPECT_EQ(run(tiny_job(), {"train.sync.mode=\"" + std::string("x\\u001b[2J\\u202e") + "\""}).outcome.how,
            cluster_outcome::end::refused);
  EXPECT_TRUE(daemon("n1").wait_log("refused", 10s)) << daemon("n1").log();
  const auto shown = troupe_jobs();
  EXPECT_THAT(shown, HasSubstr("plugin: \\x1b]0;title\\x07\\x1b[2J\\u009b2J\\u202e\n"));
  for (const auto& text : {shown, daemon("n1").log(), daemon("n2").log()}) EXPECT_EQ(printable(text, line_breaks::kept), text);
  EXPECT_EQ(daemon("n1").log().find("\nn1 forged line"), std::string::npos);
}

}  // namespace
}  // namespace troupe::testing_cluster
