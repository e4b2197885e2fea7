// The browser page of real daemons: who serves it, its token, and a job that is steered over its
// WebSocket. tests/web uses it in a browser.
#include <sys/stat.h>

#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cluster/processes.hpp"
#include "tests/web_socket_client.hpp"

namespace troupe::testing_cluster {
namespace {

using nlohmann::json;
using namespace testing_http;

class cluster_page : public cluster_test {
 protected:
  void make_cluster_with_page(int nodes, const std::string& keys) {
    make_cluster(nodes);
    std::ifstream in(path("cluster.toml"));
    std::string text((std::istreambuf_iterator<char>(in)), {});
    const std::string table = "[cluster]\n";
    text.insert(text.find(table) + table.size(), keys);
    write("cluster.toml", text);
  }
  // Of the line "ready" of n1: "... page http://127.0.0.1:PORT/ token FILE".
  void find_page() {
    const auto& out = daemon("n1").out();
    const auto at = out.find(" page http://127.0.0.1:");
    ASSERT_NE(at, std::string::npos) << out;
    port_ = static_cast<std::uint16_t>(std::stoi(out.substr(at + 23)));
    const auto file = out.find(" token ", at) + 7;
    token_file_ = out.substr(file, out.find('\n', file) - file);
    std::ifstream(token_file_) >> token_;
  }
  std::string bearer() const { return "Authorization: Bearer " + token_ + "\r\n"; }

  std::uint16_t port_ = 0;
  std::string token_file_, token_;
};

// The state that the messages of a page's WebSocket give.
class page_watcher {
 public:
  page_watcher(std::uint16_t port, const std::string& bearer) : socket_(port, "/api/feed", bearer) {}
  // Takes messages until `done` is true of the state. False if it does not become so.
  template <class F>
  bool until(F done) {
    return take_until([&](const json&) { return !state.is_null() && done(state); });
  }
  json reply(const std::string& line) {
    socket_.send(json{{"id", ++asked_}, {"line", line}}.dump());
    json found;
    take_until([&](const json& m) {
      if (m["t"] == "reply" && m["id"] == asked_ && m["more"] == false) found = m;
      return !found.is_null();
    });
    return found;
  }
  int status() const { return socket_.status; }
  json state;

 private:
  template <class F>
  bool take_until(F done) {
    const auto end = clock::now() + 60s;
    while (clock::now() < end) {
      const auto text = socket_.receive(60s);
      if (!text) return false;
      const auto m = json::parse(*text);
      if (m["t"] == "state") state = m["state"];
      if (m["t"] == "patch") state.merge_patch(m["patch"]);
      if (done(m)) return true;
    }
    return false;
  }
  web_socket_client socket_;
  int asked_ = 0;
};

TEST_F(cluster_page, the_coordinators_daemon_serves_it_with_a_token_in_its_state_folder) {
  make_cluster_with_page(2, "page = \"127.0.0.1:0\"\n");
  start_all();
  find_page();
  EXPECT_EQ(daemon("n2").out().find(" page "), std::string::npos);
  EXPECT_EQ(token_file_, path("state/n1/page.token"));
  struct stat s {};
  ASSERT_EQ(::stat(token_file_.c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0600u);
  EXPECT_EQ(token_.size(), 64u);
  EXPECT_EQ(status_of(http_get(port_, "/")), 401);
  EXPECT_EQ(status_of(http_get(port_, "/", bearer())), 200);
  for (const char* node : {"n1", "n2"}) EXPECT_EQ(daemon(node).log().find(token_), std::string::npos);
}

TEST_F(cluster_page, a_job_is_watched_and_steered_over_the_socket) {
  make_cluster_with_page(2, "page = \"127.0.0.1:0\"\n");
  start_all();
  find_page();
  page_watcher page(port_, bearer());
  ASSERT_EQ(page.status(), 101);
  EXPECT_TRUE(page.until([](const json& s) { return s["nodes"]["n2"]["state"] == "up"; })) << page.state;
  for (const char* name : {"node", "CA"}) EXPECT_GT(page.state["about"]["certificates"][name], std::time(nullptr)) << name;
  const auto job = begin(tiny_job(), endless(workers(2, 2)));
  EXPECT_TRUE(page.until(
      [](const json& s) { return s["jobs"].contains("1") && s["jobs"]["1"]["state"] == "running" && s["jobs"]["1"]["step"] > 3; }));
  EXPECT_TRUE(page.until([](const json& s) {
    return s["roles"].contains("n2/worker1/conv1") && s["roles"].contains("n1/coordinator");
  })) << page.state["roles"];
  EXPECT_EQ(page.reply("pause 1")["how"], "ok");
  EXPECT_TRUE(page.until([](const json& s) { return s["jobs"]["1"]["state"] == "paused"; }));
  EXPECT_EQ(page.reply("inject kill n2")["how"], "failed") << "the role operator may not";
  EXPECT_EQ(page.reply("resume 1")["how"], "ok");
  const auto stopped = page.reply("stop 1");
  EXPECT_EQ(stopped["how"], "ok") << stopped;
  const auto run = job->join();
  ASSERT_FALSE(run.events.empty());
  EXPECT_TRUE(run.events.back().event.is<done_event>());
}

TEST_F(cluster_page, page_role_decides_what_the_page_may_do) {
  make_cluster_with_page(1, "page = \"127.0.0.1:0\"\npage_role = \"observer\"\n");
  start_all();
  find_page();
  page_watcher page(port_, bearer());
  EXPECT_TRUE(page.until([](const json& s) { return s["about"]["role"] == "observer"; }));
  EXPECT_EQ(page.reply("nodes")["how"], "ok");
  EXPECT_EQ(page.reply("pause")["how"], "failed");
}

TEST_F(cluster_page, wrong_keys_are_errors_with_their_place) {
  const auto refused = [&](const std::string& keys) {
    make_cluster_with_page(1, keys);
    process p({std::string(TROUPE_BIN_DIR) + "/trouped", "--cluster", path("cluster.toml"), "--node", "n1"}, folder_);
    EXPECT_EQ(p.wait(20s), 2) << p.log();
    names_.clear();
    std::filesystem::remove_all(path("certs"));
    return p.log();
  };
  EXPECT_NE(refused("page = \"7800\"\n").find("cluster.toml:2:"), std::string::npos);
  EXPECT_NE(refused("page = \"0.0.0.0:7800\"\n").find("stands for all interfaces"), std::string::npos);
  EXPECT_NE(refused("page_role = \"root\"\n").find("observer"), std::string::npos);
}

}  // namespace
}  // namespace troupe::testing_cluster
