// The server of the browser page: every route and the socket with wrong tokens, hosts and origins,
// the login, its files, and run folders.
#include "actors/page/server.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "actors/page/files.hpp"
#include "runtime/node/runs/run_info.hpp"
#include "tests/actors/repl_fake.hpp"
#include "tests/web_socket_client.hpp"

namespace troupe {
namespace {

using json = nlohmann::json;

class page_server_test : public ::testing::Test {
 protected:
  page_server_test() {
    char name[] = "/tmp/troupe_page_XXXXXX";
    dir_ = ::mkdtemp(name);
    options_.where = {"127.0.0.1", 0};
    options_.token_file = dir_ / "page.token";
    options_.runs = dir_ / "runs";
    options_.title = "Troupe: lab";
  }
  ~page_server_test() override {
    page_.reset();
    std::filesystem::remove_all(dir_);
  }
  void SetUp() override {
    auto made = page_server::open(options_, backend_);
    ASSERT_TRUE(made) << made.error().message;
    page_ = std::move(*made);
    const auto url = page_->url();
    port_ = static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
    std::ifstream(options_.token_file) >> token_;
  }
  std::string bearer() const { return "Authorization: Bearer " + token_ + "\r\n"; }

  std::filesystem::path dir_;
  fake_backend backend_;
  page_options options_;
  std::unique_ptr<page_server> page_;
  std::uint16_t port_ = 0;
  std::string token_;
};

const std::vector<std::string> page_paths = {"/",         "/app.js",         "/app.css",  "/icon.svg", "/api/session",
                                             "/api/runs", "/api/run?name=x", "/api/help", "/api/feed", "/none"};

TEST_F(page_server_test, every_route_and_the_socket_refuse_requests_without_token_host_or_origin) {
  using namespace testing_http;
  const auto status = [&](const std::string& bytes) {
    http_client c(port_);
    c.send(bytes);
    return status_of(c.response());
  };
  for (const auto& path : page_paths) {
    EXPECT_EQ(status(get_request(path)), 401) << path;
    EXPECT_EQ(status(get_request(path, "Authorization: Bearer wrong\r\n")), 401) << path;
    EXPECT_EQ(status(get_request(path, "Cookie: troupe=1\r\n")), 401) << path;
    EXPECT_EQ(status(get_request(path, bearer() + "Origin: http://evil.example\r\n")), 403) << path;
    EXPECT_EQ(status("GET " + path + " HTTP/1.1\r\nHost: evil.example\r\n" + bearer() + "\r\n"), 403) << path;
    EXPECT_EQ(status(socket_request(path)), 401) << path;
    EXPECT_EQ(status(socket_request(path, bearer() + "Origin: http://evil.example\r\n")), 403) << path;
    EXPECT_EQ(status("POST " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3\r\n\r\na=1"), 401) << path;
  }
  EXPECT_EQ(status("POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 7\r\n\r\ntoken=x"), 401);
  EXPECT_EQ(status("POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000\r\n\r\n"), 413);
}

TEST_F(page_server_test, serves_its_files_with_a_strict_policy) {
  using namespace testing_http;
  ASSERT_FALSE(page_files().empty());
  for (const auto& f : page_files()) {
    const auto r = http_get(port_, f.path, bearer());
    EXPECT_EQ(status_of(r), 200) << f.path;
    EXPECT_EQ(body_of(r), f.bytes) << f.path;
    EXPECT_NE(r.find(std::string("Content-Type: ") + f.type), std::string::npos) << r.substr(0, 500);
    for (const char* header : {"Content-Security-Policy: default-src 'self'", "X-Frame-Options: DENY",
                               "Referrer-Policy: same-origin", "X-Content-Type-Options: nosniff"})
      EXPECT_NE(r.find(header), std::string::npos) << f.path << header;
  }
  EXPECT_EQ(status_of(http_get(port_, "/none", bearer())), 404);
  EXPECT_NE(http_get(port_, "/").find("Content-Security-Policy: default-src 'self'"), std::string::npos) << "the form, too";
}

TEST_F(page_server_test, a_browser_logs_in_with_the_form_and_opens_the_socket_with_its_cookie) {
  using namespace testing_http;
  const std::string origin = "Origin: http://127.0.0.1\r\n";
  const auto body = "token=" + token_;
  http_client c(port_);
  c.send("POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\n" + origin + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
         body);
  const auto in = c.response();
  ASSERT_EQ(status_of(in), 303) << in;
  const auto at = in.find("Set-Cookie: ") + 12;
  const auto cookie = "Cookie: " + in.substr(at, in.find(';', at) - at) + "\r\n";
  EXPECT_EQ(status_of(http_get(port_, "/", cookie)), 200);
  EXPECT_EQ(web_socket_client(port_, "/api/feed", cookie).status, 403) << "without an origin";
  web_socket_client s(port_, "/api/feed", cookie + origin);
  ASSERT_EQ(s.status, 101);
  const auto first = json::parse(s.receive().value());
  EXPECT_EQ(first["t"], "state");
  EXPECT_EQ(first["state"]["about"]["cluster"], "lab");
  s.send(R"({"id":1,"line":"status"})");
  const auto reply = json::parse(s.receive().value());
  EXPECT_EQ(reply["t"], "reply");
  EXPECT_EQ(reply["how"], "ok");
}

TEST_F(page_server_test, pages_that_do_not_read_do_not_keep_others_from_the_news) {
  using namespace testing_http;
  std::vector<std::unique_ptr<web_socket_client>> deaf;
  for (int i = 0; i < 50; ++i) deaf.push_back(std::make_unique<web_socket_client>(port_, "/api/feed", bearer()));
  web_socket_client s(port_, "/api/feed", bearer());
  EXPECT_EQ(json::parse(s.receive().value())["t"], "state");
  for (std::uint64_t i = 0; i < 5; ++i) {
    backend_.said.put(2, {i, eval_event{0.5, {}, 1}});
    EXPECT_EQ(json::parse(s.receive().value())["t"], "events");
  }
  s.http.send("garbage that is no frame");
  EXPECT_EQ(web_socket_client(port_, "/api/feed", bearer()).status, 101);
}

TEST_F(page_server_test, pages_get_the_last_state_before_the_server_ends) {
  using namespace testing_http;
  web_socket_client s(port_, "/api/feed", bearer());
  EXPECT_EQ(json::parse(s.receive().value())["t"], "state");
  backend_.said.put(2, {7, done_event{}});
  page_->finish(std::chrono::seconds(20));
  page_.reset();
  const auto last = s.receive();
  ASSERT_TRUE(last);
  const auto o = json::parse(*last);
  EXPECT_EQ(o["t"], "events") << o;
  EXPECT_EQ(o["events"].back()["event"], "done") << o;
}

TEST_F(page_server_test, shows_runs_of_its_folder_and_no_other_file) {
  using namespace testing_http;
  EXPECT_EQ(body_of(http_get(port_, "/api/runs", bearer())), R"({"runs":[],"total":0})");
  EXPECT_EQ(status_of(http_get(port_, "/api/runs?offset=-1", bearer())), 400);
  EXPECT_EQ(status_of(http_get(port_, "/api/runs?limit=3x", bearer())), 400);
  for (const char* name : {"7-x", "..", "../..", "%2e%2e", "/etc", ""})
    EXPECT_EQ(status_of(http_get(port_, std::string("/api/run?name=") + name, bearer())), 404) << name;
}

TEST_F(page_server_test, every_run_is_on_one_page_of_the_list_the_newest_first) {
  using namespace testing_http;
  for (int n = 1; n <= 7; ++n) {
    run_info r;
    r.number = static_cast<std::uint32_t>(n);
    r.name = "x";
    r.state = "done";
    const auto folder = options_.runs / (std::to_string(n) + "-x");
    std::filesystem::create_directories(folder);
    std::ofstream(run_info_file(folder)) << run_info_text(r);
  }
  const auto names = [&](const std::string& query) {
    const auto o = json::parse(body_of(http_get(port_, "/api/runs" + query, bearer())));
    EXPECT_EQ(o["total"], 7) << query;
    std::string text;
    for (const auto& r : o["runs"]) text += r["folder"].get<std::string>().substr(0, 1);
    return text;
  };
  EXPECT_EQ(names(""), "7654321");
  EXPECT_EQ(names("?limit=3"), "765");
  EXPECT_EQ(names("?limit=3&offset=3"), "432");
  EXPECT_EQ(names("?offset=6&limit=3"), "1");
  EXPECT_EQ(names("?offset=7"), "");
  EXPECT_EQ(names("?offset=18446744073709551615&limit=18446744073709551615"), "");
  EXPECT_EQ(names("?limit=0"), "");
}

}  // namespace
}  // namespace troupe
