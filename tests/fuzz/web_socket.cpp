// Fuzz target: the frames of a WebSocket's client. A server listens in this process; each input is
// sent over a connection of its own.
#include "runtime/node/http/server.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/web_socket_client.hpp"

namespace troupe::fuzz {
namespace {

using namespace testing_http;

http::server& server_with_socket() {
  static const auto server = [] {
    http::server_options o;
    o.where = {"127.0.0.1", 0};
    o.limits.deadline = std::chrono::milliseconds(2000);
    o.sockets["/socket"] = {[](const auto&, const http::request&) {},
                            [](const auto& s, const std::string& t) { s->send(std::make_shared<const std::string>(t)); },
                            [](const auto&) {}};
    auto opened = http::server::open(std::move(o));
    must(opened.has_value(), "the server does not open");
    return std::move(*opened);
  }();
  return *server;
}

void read_frames(input in) {
  // A closed connection occupies its pair of ports for a minute, so addresses of clients vary.
  static unsigned count = 0;
  const auto block = ++count / 1000;
  http_client c(server_with_socket().port(), "127.0.0.1",
                "127.2." + std::to_string(block / 250 % 250) + "." + std::to_string(1 + block % 250));
  c.send(socket_request("/socket"));
  must(status_of(c.response()) == 101, "no WebSocket");
  c.send(text(in));
  c.end_sending();
  must(c.closed(std::chrono::seconds(20)), "the WebSocket does not end");
}

std::vector<std::string> sound_frames() {
  return {socket_frame("hello") + socket_frame("", 0x89) + socket_frame(std::string(300, 'a')),
          socket_frame("hel", 0x01) + socket_frame("lo", 0x80), socket_frame("\x03\xe8 bye", 0x88),
          socket_frame(std::string(70'000, 'x'))};
}

const entry web_socket_entry({"web_socket", read_frames, sound_frames});

}  // namespace
}  // namespace troupe::fuzz
