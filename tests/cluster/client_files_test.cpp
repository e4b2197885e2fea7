// Which files a client can make a daemon read: data under the folders that the cluster file allows,
// and plugins that it names. A client with the right to submit jobs does not get read access to the
// nodes' disks.
#include <filesystem>
#include <fstream>
#include <iterator>

#include "runtime/base/wording.hpp"
#include "runtime/node/config/job_file.hpp"
#include "runtime/node/config/plugin.hpp"
#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {
namespace {

namespace fs = std::filesystem;

class cluster_client_files : public cluster_test {
 protected:
  static std::string job_on(const std::string& data) {
    return "[data]\n" + data +
           "batch = 2\n[[layer]]\nname = \"ip\"\ntype = \"linear\"\ninputs = [\"data\"]\noutputs = 2\n[[layer]]\nname = \"loss\"\n"
           "type = \"softmax_loss\"\ninputs = [\"ip\", \"label\"]\n[train]\nfinish = { steps = 2 }\n";
  }
  std::string csv_at(const std::string& file) const {
    return "source = \"csv\"\npath = \"" + file + "\"\nheader = false\nlabel = \"-1\"\n";
  }
  static std::string renamed(std::string text, const std::string& from, const std::string& to) {
    for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
    return text;
  }
  std::string text_of_file(const std::string& name) const {
    std::ifstream in(folder_ / name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // All messages that the client receives about a rejected job.
  std::string refusal(const std::string& text) {
    const auto r = run(text);
    EXPECT_EQ(r.outcome.exit_code(), 2);
    std::string all;
    for (const auto& m : r.outcome.messages) all += m + "\n";
    return all;
  }
};

TEST_F(cluster_client_files, error_messages_contain_no_content_of_a_file) {
  make_cluster(1);
  start_all();
  const auto secret = write("secret.key", "-----BEGIN PRIVATE KEY-----\nMHcCAQEE\n-----END PRIVATE KEY-----\n");
  const auto said = refusal(job_on(csv_at(secret)));
  EXPECT_EQ(said.find("PRIVATE"), std::string::npos) << said;
  EXPECT_EQ(said.find("MHcC"), std::string::npos) << said;
  EXPECT_EQ(said.rfind("job.toml:3:1: ", 0), 0u) << said;
  // The message does not reveal whether the file exists.
  const auto missing = renamed(refusal(job_on(csv_at(path("nothing.key")))), "nothing.key", "secret.key");
  EXPECT_EQ(missing, said);
}

TEST_F(cluster_client_files, data_outside_the_folders_of_the_cluster_file_is_refused) {
  data_ = {"sets"};
  make_cluster(2);
  fs::create_directories(folder_ / "sets/in");
  const std::string rows = "1,2,0\n3,4,1\n5,6,0\n";
  write("sets/in/rows.csv", rows);
  write("outside.csv", rows);
  fs::create_symlink(folder_ / "outside.csv", folder_ / "sets/link.csv");
  fs::create_symlink(folder_ / "sets/in/rows.csv", folder_ / "sets/inner.csv");
  start_all();
  for (const char* good : {"sets/in/rows.csv", "sets/inner.csv", "sets/../sets/in/rows.csv"})
    EXPECT_EQ(run(job_on(csv_at(path(good)))).outcome.exit_code(), 0) << good;
  for (const char* bad : {"outside.csv", "sets/link.csv", "sets/../outside.csv", "sets/in/../../outside.csv"}) {
    const auto said = refusal(job_on(csv_at(path(bad))));
    EXPECT_NE(said.find("this node reads data only under the folders of its cluster file"), std::string::npos) << said;
  }
  // An override is checked like a line of the job file.
  const auto r = run(job_on(csv_at(path("sets/in/rows.csv"))), {"data.path=\"" + path("outside.csv") + "\""});
  EXPECT_EQ(r.outcome.exit_code(), 2);
}

TEST_F(cluster_client_files, included_files_come_with_the_text_and_are_not_opened) {
  make_cluster(2);
  start_all();
  const auto base = write("base.toml", tiny_job());
  const auto job = write("job.toml", "include = \"base.toml\"\n[train.finish]\nsteps = 2\n");
  const auto sent = read_config_text(job);
  ASSERT_TRUE(sent);
  const auto r = run(renamed(*sent, base, "base.toml"));  // run() calls the job's file job.toml, without a folder
  EXPECT_EQ(r.outcome.exit_code(), 0) << troupe::joined(r.outcome.messages);
  const auto alone = refusal("include = \"" + base + "\"\n");
  EXPECT_NE(alone.find("did not come with the text of the job"), std::string::npos) << alone;
  const auto missing = renamed(refusal("include = \"" + path("none.toml") + "\"\n"), "none.toml", "base.toml");
  EXPECT_EQ(missing, alone) << "the message does not reveal whether the file exists";
}

TEST_F(cluster_client_files, a_plugin_that_the_cluster_file_does_not_name_is_refused) {
  const auto plugin = fs::path(TROUPE_BIN_DIR) / "../lib/plugins/libtest_plugin_fading.so";
  if (!fs::exists(plugin)) GTEST_SKIP() << "the test plugins are not built";
  fs::copy_file(plugin, folder_ / "libmine.so");
  fs::copy_file(plugin, folder_ / "libtheirs.so");
  plugins_ = {"libmine.so"};
  make_cluster(1);
  start_all();
  const auto with = [&](const std::string& name) { return "plugins = [\"" + name + "\"]\n" + tiny_job(); };
  const std::vector<std::string> set{"train.sync={mode=\"fading\",tau=2}", "train.finish={steps=4}"};
  EXPECT_EQ(run(with(path("libmine.so")), set).outcome.exit_code(), 0);
  EXPECT_EQ(run(with("libmine.so"), set).outcome.exit_code(), 0) << "by its file name; the cluster file has the path";
  EXPECT_EQ(run(tiny_job(), set).outcome.exit_code(), 0) << "a job does not have to name the plugin";
  const auto said = refusal(with(path("libtheirs.so")));
  EXPECT_EQ(said.rfind("job.toml:1:12: ", 0), 0u) << said;
  EXPECT_NE(said.find("this node loads only plugins that its cluster file names"), std::string::npos) << said;
  const auto missing = renamed(refusal(with(path("libnobody.so"))), "libnobody", "libtheirs");
  EXPECT_EQ(missing, said) << "the message does not reveal whether the file exists";
}

TEST_F(cluster_client_files, a_plugin_whose_digest_differs_is_refused) {
  const auto plugin = fs::path(TROUPE_BIN_DIR) / "../lib/plugins/libtest_plugin_fading.so";
  if (!fs::exists(plugin)) GTEST_SKIP() << "the test plugins are not built";
  fs::copy_file(plugin, folder_ / "libmine.so");
  plugins_ = {"libmine.so"};
  make_cluster(1);
  start_all();
  const std::vector<std::string> set{"train.sync={mode=\"fading\",tau=2}", "train.finish={steps=4}"};
  const auto digest = plugin_sha256(path("libmine.so"));
  const auto with = [&](const std::string& name) { return "plugins = [\"" + name + "\"]\n" + tiny_job(); };
  EXPECT_EQ(run(with("libmine.so#sha256=" + digest), set).outcome.exit_code(), 0) << "a job may name the plugin's digest";
  const auto said = refusal(with("libmine.so#sha256=" + std::string(64, '0')));
  EXPECT_NE(said.find("this node loads only plugins that its cluster file names"), std::string::npos) << said;
  // Replacing the file does not affect a running daemon. The next daemon refuses to start with it.
  std::ofstream(path("libmine.so"), std::ios::app) << "more";
  EXPECT_EQ(run(tiny_job(), set).outcome.exit_code(), 0);
  kill_hard("n1");
  process changed({std::string(TROUPE_BIN_DIR) + "/trouped", "--cluster", path("cluster.toml"), "--node", "n1"}, folder_);
  EXPECT_EQ(changed.wait(), 2);
  EXPECT_NE(
      changed.log().find("libmine.so: its sha256 is " + plugin_sha256(path("libmine.so")) + ", but the allowed one is " + digest),
      std::string::npos)
      << changed.log();
}

TEST_F(cluster_client_files, a_daemon_does_not_start_with_a_plugin_without_a_digest) {
  make_cluster(1);
  write("libmine.so", "whatever");
  write("cluster.toml", "plugins = [\"libmine.so\"]\n" + text_of_file("cluster.toml"));
  process bare({std::string(TROUPE_BIN_DIR) + "/trouped", "--cluster", path("cluster.toml"), "--node", "n1"}, folder_);
  EXPECT_EQ(bare.wait(), 2);
  EXPECT_NE(bare.log().find("write \"libmine.so#sha256=" + plugin_sha256(path("libmine.so")) + "\""), std::string::npos)
      << bare.log();
}

}  // namespace
}  // namespace troupe::testing_cluster
