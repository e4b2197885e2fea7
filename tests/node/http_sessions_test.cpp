// Who may use a page: token files, sessions, Host and Origin.
#include "runtime/node/http/sessions.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>
#include <vector>

#include "runtime/node/http/access.hpp"
#include "tests/node/net_support.hpp"

namespace troupe::http {
namespace {

constexpr const char* page_word = "0123456789abcdef0123456789abcdef";

request page_request(const std::string& path, const std::string& method = "GET") {
  return {method, path, "", "127.0.0.1:7800", "", "", "", ""};
}
int refused(const sessions& s, const request& r, std::int64_t now = 1000) {
  const auto no = s.refusal(r, now);
  return no ? static_cast<int>(no->status) : 0;
}
std::string header_of(const response& r, const std::string& name) {
  for (const auto& [key, value] : r.headers)
    if (key == name) return value;
  return {};
}
request login_request(const std::string& token) {
  auto r = page_request("/login", "POST");
  r.body = "token=" + token;
  return r;
}
// The cookie of a fresh session, as a browser sends it.
std::string session_cookie(sessions& s, std::int64_t now = 1000) {
  const auto set = header_of(s.log_in(login_request(page_word), now), "Set-Cookie");
  return set.substr(0, set.find(';'));
}

TEST(http_sessions, without_a_session_every_request_gets_401_with_a_form) {
  const sessions s(page_word, "127.0.0.1", "Troupe <lab>");
  for (const char* method : {"GET", "HEAD", "POST", "PUT"})
    for (const char* path : {"/", "/app.js", "/api/runs", "/api/feed", "/none", "/logout"}) {
      if (method == std::string("POST") && path == std::string("/login")) continue;
      EXPECT_EQ(refused(s, page_request(path, method)), 401) << method << " " << path;
    }
  const auto page = s.refusal(page_request("/"), 1000);
  EXPECT_NE(page->body.find("Troupe &lt;lab>"), std::string::npos);
  EXPECT_NE(page->body.find("action=\"/login\""), std::string::npos);
  EXPECT_EQ(page->body.find(page_word), std::string::npos);
}

TEST(http_sessions, the_token_gives_a_session_that_ends) {
  sessions s(page_word, "127.0.0.1", "t");
  const auto in = s.log_in(login_request(page_word), 1000);
  EXPECT_EQ(in.status, 303u);
  EXPECT_EQ(header_of(in, "Location"), "/");
  const auto set = header_of(in, "Set-Cookie");
  for (const char* part : {"; HttpOnly", "; SameSite=Strict", "; Path=/", "; Max-Age=43200"})
    EXPECT_NE(set.find(part), std::string::npos) << set;
  EXPECT_EQ(set.find("Secure"), std::string::npos);
  EXPECT_EQ(set.find(page_word), std::string::npos);
  auto r = page_request("/");
  r.cookie = "other=1; " + set.substr(0, set.find(';')) + "; z=2";
  EXPECT_EQ(refused(s, r), 0);
  EXPECT_EQ(refused(s, r, 1000 + sessions::lifetime - 1), 0);
  EXPECT_EQ(refused(s, r, 1000 + sessions::lifetime), 401);
  EXPECT_EQ(refused(s, r, 999 - sessions::lifetime), 401) << "a clock that was set back";
  auto secure = login_request(page_word);
  secure.secure = true;
  EXPECT_NE(header_of(s.log_in(secure, 1000), "Set-Cookie").find("; Secure"), std::string::npos);
}

TEST(http_sessions, a_session_lasts_over_a_restart_and_ends_with_the_token) {
  sessions before(page_word, "127.0.0.1", "t");
  auto r = page_request("/");
  r.cookie = session_cookie(before);
  EXPECT_EQ(refused(sessions(page_word, "127.0.0.1", "t"), r), 0);
  EXPECT_EQ(refused(sessions("fedcba9876543210fedcba9876543210", "127.0.0.1", "t"), r), 401);
}

TEST(http_sessions, a_changed_session_is_none) {
  sessions s(page_word, "127.0.0.1", "t");
  const auto good = session_cookie(s);
  auto r = page_request("/");
  for (std::size_t i = good.find('=') + 1; i < good.size(); ++i) {
    r.cookie = good;
    r.cookie[i] = r.cookie[i] == '0' ? '1' : '0';
    EXPECT_EQ(refused(s, r), 401) << r.cookie;
  }
  const auto name = good.substr(0, good.find('='));
  const std::vector<std::string> values = {
      "", ".", "..", "99999999999999999999.a.b", "2000..", "2000.x." + std::string(64, '0'), "-1.x.y", "a.b.c"};
  for (const auto& value : values) {
    r.cookie = name + "=" + value;
    EXPECT_EQ(refused(s, r), 401) << value;
  }
  r.cookie = good.substr(name.size() + 1);
  EXPECT_EQ(refused(s, r), 401);
}

TEST(http_sessions, programs_send_the_token_as_a_bearer_token) {
  const sessions s(page_word, "127.0.0.1", "t");
  auto r = page_request("/api/feed");
  r.authorization = std::string("Bearer ") + page_word;
  EXPECT_EQ(refused(s, r), 0);
  r.opens_socket = true;
  EXPECT_EQ(refused(s, r), 0) << "no web page can make a browser send this header";
  r.authorization.back() = 'X';
  EXPECT_EQ(refused(s, r), 401);
}

TEST(http_sessions, another_host_or_origin_gets_403_on_every_request) {
  sessions s(page_word, "node1", "t");
  const auto cookie = session_cookie(s);
  for (const bool socket : {false, true})
    for (const char* path : {"/", "/login", "/api/feed"}) {
      auto r = page_request(path, path == std::string("/login") ? "POST" : "GET");
      r.cookie = cookie;
      r.opens_socket = socket;
      r.origin = "http://127.0.0.1:7800";
      EXPECT_EQ(refused(s, r), 0);
      for (const char* origin :
           {"http://evil.example", "https://127.0.0.1:7800", "http://127.0.0.1", "http://127.0.0.1:7801", "null"}) {
        r.origin = origin;
        EXPECT_EQ(refused(s, r), 403) << path << " " << origin;
      }
      for (const char* host : {"evil.example", "127.0.0.1.evil.example", "", "node2:7800"}) {
        r.host = host;
        r.origin = std::string("http://") + host;
        EXPECT_EQ(refused(s, r), 403) << path << " " << host;
      }
      r.host = "Node1:7800", r.origin = "http://Node1:7800";
      EXPECT_EQ(refused(s, r), 0);
    }
}

TEST(http_sessions, a_cookie_alone_opens_no_socket_and_posts_nothing_without_an_origin) {
  sessions s(page_word, "127.0.0.1", "t");
  auto r = page_request("/api/feed");
  r.cookie = session_cookie(s);
  EXPECT_EQ(refused(s, r), 0);
  r.opens_socket = true;
  EXPECT_EQ(refused(s, r), 403);
  r = page_request("/logout", "POST");
  r.cookie = session_cookie(s);
  EXPECT_EQ(refused(s, r), 403);
  r.origin = "http://127.0.0.1:7800";
  EXPECT_EQ(refused(s, r), 0);
  EXPECT_NE(header_of(s.log_out(r), "Set-Cookie").find("Max-Age=0"), std::string::npos);
}

TEST(http_sessions, wrong_tokens_are_refused_and_counted_per_minute) {
  sessions s(page_word, "127.0.0.1", "t");
  EXPECT_EQ(s.log_in(page_request("/login", "POST"), 1000).status, 401u) << "no body";
  for (std::size_t i = 1; i < sessions::max_failures; ++i) EXPECT_EQ(s.log_in(login_request("wrong"), 1000).status, 401u);
  EXPECT_EQ(s.log_in(login_request("wrong"), 1059).status, 429u);
  EXPECT_EQ(s.log_in(login_request("wrong"), 1060).status, 401u);
}

TEST(http_sessions, wrong_tokens_of_one_user_do_not_lock_out_another) {
  sessions s(page_word, "127.0.0.1", "t");
  for (std::size_t i = 0; i < 10 * sessions::max_failures; ++i) {
    EXPECT_NE(s.log_in(login_request("wrong"), 1000).status, 303u);
    EXPECT_EQ(s.log_in(login_request(page_word), 1000).status, 303u) << "after " << i + 1 << " wrong tokens";
  }
}

TEST(http_sessions, a_pasted_token_may_have_white_space_around_it) {
  sessions s(page_word, "127.0.0.1", "t");
  EXPECT_EQ(s.log_in(login_request(std::string("+") + page_word + "%0A%0D"), 1000).status, 303u);
  EXPECT_EQ(s.log_in(login_request("%30" + std::string(page_word).substr(1) + "&token=x"), 1000).status, 303u);
}

TEST(http_sessions, two_pages_on_one_host_have_cookies_of_different_names) {
  sessions a(page_word, "127.0.0.1", "t"), b("fedcba9876543210fedcba9876543210", "127.0.0.1", "t");
  const auto of_a = session_cookie(a);
  const auto set = header_of(b.log_in(login_request("fedcba9876543210fedcba9876543210"), 1000), "Set-Cookie");
  EXPECT_NE(of_a.substr(0, of_a.find('=')), set.substr(0, set.find('=')));
}

TEST(http_sessions, a_token_file_is_made_once_and_only_its_user_may_read_it) {
  net::testing::temporary_directory dir;
  const auto file = dir.path() / "page.token";
  const auto first = page_token(file);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->size(), 64u);
  struct stat s {};
  ASSERT_EQ(::stat(file.c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0600u);
  EXPECT_EQ(*page_token(file), *first);
  std::filesystem::remove(file);
  EXPECT_NE(*page_token(file), *first);
  ::chmod(file.c_str(), 0644);
  EXPECT_EQ(page_token(file).error().code, "token_exposed");
  std::filesystem::remove(file);
  std::ofstream(file) << "0123456789abcdef\n";
  ::chmod(file.c_str(), 0600);
  EXPECT_EQ(page_token(file).error().code, "bad_token") << "too short";
  EXPECT_EQ(page_token(dir.path() / "none" / "page.token").error().code, "token_unwritable");
}

TEST(http_access, a_token_file_must_be_closed_to_others_and_have_one_long_word) {
  net::testing::temporary_directory dir;
  const auto file = dir.path() / "token";
  const auto code = [&](const std::string& text, mode_t mode) {
    std::ofstream(file, std::ios::binary) << text;
    ::chmod(file.c_str(), mode);
    const auto t = read_token(file);
    return t ? "ok " + *t : t.error().code;
  };
  EXPECT_EQ(read_token(file).error().code, "token_missing");
  EXPECT_EQ(code("0123456789abcdef\n", 0600), "ok 0123456789abcdef");
  EXPECT_EQ(code("0123456789abcdef", 0400), "ok 0123456789abcdef");
  EXPECT_EQ(code("0123456789abcdef\n", 0640), "token_exposed");
  EXPECT_EQ(code("0123456789abcdef\n", 0604), "token_exposed");
  EXPECT_EQ(code("short\n", 0600), "bad_token");
  EXPECT_EQ(code("0123456789 abcdef\n", 0600), "bad_token");
  EXPECT_EQ(code("0123456789abcdef\n\n", 0600), "bad_token");
  EXPECT_EQ(code("", 0600), "bad_token");
  EXPECT_EQ(code(std::string(10'000, 'a'), 0600), "bad_token");
  EXPECT_EQ(read_token(dir.path()).error().code, "token_missing") << "a folder";
}

TEST(http_access, names_of_this_machine_are_numbers_localhost_and_its_own) {
  for (const char* yes :
       {"127.0.0.1", "127.0.0.1:9101", "localhost", "LOCALHOST:80", "[::1]", "[::1]:9101", "192.168.1.7:9101", "Node1:9101"})
    EXPECT_TRUE(names_this_machine(yes, "node1")) << yes;
  for (const char* no :
       {"", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "[", "[::1", "node1.evil", ":9101"})
    EXPECT_FALSE(names_this_machine(no, "node1")) << no;
  EXPECT_TRUE(is_loopback("127.3.4.5") && is_loopback("::1") && is_loopback("localhost"));
  EXPECT_FALSE(is_loopback("10.0.0.1") || is_loopback("node1") || is_loopback("0.0.0.0"));
}

TEST(http_access, form_values_are_decoded) {
  EXPECT_EQ(form_value("a=1&b=2", "b"), "2");
  EXPECT_EQ(form_value("a=1&b=2&b=3", "b"), "2");
  EXPECT_EQ(form_value("name=7-le%20net%2Fx+y", "name"), "7-le net/x y");
  EXPECT_EQ(form_value("a=%4&b=%zz&c=%", "a"), "%4");
  EXPECT_EQ(form_value("a=%4&b=%zz&c=%", "b"), "%zz");
  EXPECT_EQ(form_value("a=%4&b=%zz&c=%", "c"), "%");
  EXPECT_EQ(form_value("", "a"), "");
  EXPECT_EQ(form_value("a&&=&ab=1", "a"), "");
}

TEST(http_access, a_page_for_this_machine_needs_a_loopback_address) {
  EXPECT_EQ(loopback_address("9101", "pages")->port, 9101);
  EXPECT_EQ(loopback_address("localhost:0", "pages")->host, "localhost");
  EXPECT_EQ(loopback_address("10.0.0.1:1", "pages").error().code, "not_loopback");
  EXPECT_EQ(loopback_address("job.toml", "pages").error().code, "bad_address");
}

}  // namespace
}  // namespace troupe::http
