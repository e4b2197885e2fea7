// `troupe train --page`: the page of a run in this process.
#include <sys/stat.h>

#include <fstream>

#include "tests/apps/child.hpp"
#include "tests/http_client.hpp"

namespace troupe::testing_apps {
namespace {

class train_page : public command_test {
 protected:
  const std::string job = write("job.toml", tiny_job());
};

TEST_F(train_page, prints_its_address_and_the_file_of_its_token) {
  child c(troupe_program(), {"train", job, "--run-dir", "runs", "--set", "train.finish.steps=100000000", "--page"}, folder_);
  std::string line, port, file;
  while ((port.empty() || file.empty()) && c.read_line(line)) {
    if (const auto at = line.find("http://127.0.0.1:"); at != std::string::npos) port = line.substr(at + 17);
    if (line.ends_with("page.token")) file = line.substr(line.rfind(' ') + 1);
  }
  ASSERT_FALSE(port.empty() || file.empty());
  struct stat s {};
  ASSERT_EQ(::stat((folder_ / file).c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0600u);
  std::string token;
  std::ifstream(folder_ / file) >> token;
  const auto at = static_cast<std::uint16_t>(std::stoi(port));
  EXPECT_EQ(testing_http::status_of(testing_http::http_get(at, "/")), 401);
  const auto runs = testing_http::http_get(at, "/api/runs", "Authorization: Bearer " + token + "\r\n");
  EXPECT_NE(runs.find("\"folder\":\"1-tiny\""), std::string::npos) << runs;
  while (line.find("step") == std::string::npos && c.read_line(line)) {  // it trains, and takes signals
  }
  c.send(SIGINT);
  const auto o = c.wait();
  EXPECT_EQ(o.code, 130) << o.err;
  EXPECT_EQ((o.out + o.err).find(token), std::string::npos);
}

TEST_F(train_page, refuses_addresses_that_others_reach_and_runs_without_a_folder) {
  const auto refused = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"train", job, "--run-dir", "runs"};
    words.insert(words.end(), more.begin(), more.end());
    const auto o = troupe(words);
    EXPECT_EQ(o.code, 2) << o.out << o.err;
    return o.err;
  };
  EXPECT_NE(refused({"--page", "10.0.0.1:7800"}).find("only on a loopback address"), std::string::npos);
  EXPECT_NE(refused({"--page=abc"}).find("is not PORT or HOST:PORT"), std::string::npos);
  EXPECT_NE(troupe({"train", job, "--no-run", "--page"}).err.find("run folder"), std::string::npos);
  const auto cluster = troupe({"train", job, "--cluster", "none.toml", "--page"});
  EXPECT_EQ(cluster.code, 2);
  EXPECT_NE(cluster.err.find("the coordinator's daemon serves the page"), std::string::npos) << cluster.err;
}

}  // namespace
}  // namespace troupe::testing_apps
