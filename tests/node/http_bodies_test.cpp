// The limit of all request bodies of a server together.
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <string>

#include "runtime/node/http/server.hpp"
#include "tests/http_client.hpp"

namespace troupe::http {
namespace {

using testing_http::body_of;
using testing_http::http_client;
using testing_http::status_of;

TEST(http_bodies, are_refused_when_all_together_are_over_the_limit) {
  server_options o;
  o.where = {"127.0.0.1", 0};
  std::promise<std::function<void(response &&)>> begun;
  o.later["/later"] = [&](request&&, std::function<void(response &&)> reply) { begun.set_value(std::move(reply)); };
  o.posts["/post"] = [](const request& r) { return response{200, "text/plain", std::to_string(r.body.size())}; };
  o.limits.max_body = 1000, o.limits.max_bodies = 1500;
  const auto opened = server::open(o);
  ASSERT_TRUE(opened) << opened.error().message;
  const auto port = (*opened)->port();
  const auto post = [](http_client& c, const std::string& path, std::size_t bytes) {
    c.send("POST " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: " + std::to_string(bytes) + "\r\n\r\n" +
           std::string(bytes, 'x'));
  };
  http_client first(port);
  post(first, "/later", 1000);
  const auto reply = begun.get_future().get();
  http_client second(port), third(port);
  post(second, "/post", 501);
  EXPECT_EQ(status_of(second.response()), 503);
  post(third, "/post", 500);
  EXPECT_EQ(body_of(third.response()), "500");
  reply({200, "text/plain", "late"});
  EXPECT_EQ(body_of(first.response()), "late");
  http_client fourth(port);
  post(fourth, "/post", 1000);
  EXPECT_EQ(body_of(fourth.response()), "1000");
}

}  // namespace
}  // namespace troupe::http
