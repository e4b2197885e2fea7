// A raw WebSocket client for tests: any handshake, any frame, with deadlines.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "tests/http_client.hpp"

namespace troupe::testing_http {

inline std::string socket_request(const std::string& path, const std::string& more = {}) {
  return get_request(path,
                     "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                     "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" +
                         more);
}

// A frame of a client; `first`: FIN and opcode, 0x81 for a text.
inline std::string socket_frame(const std::string& text, unsigned char first = 0x81) {
  std::string f(1, static_cast<char>(first));
  const auto n = text.size();
  if (n < 126) {
    f += static_cast<char>(0x80 | n);
  } else if (n < 65536) {
    f += static_cast<char>(0x80 | 126);
    for (int shift = 8; shift >= 0; shift -= 8) f += static_cast<char>(n >> shift & 255);
  } else {
    f += static_cast<char>(0x80 | 127);
    for (int shift = 56; shift >= 0; shift -= 8) f += static_cast<char>(std::uint64_t{n} >> shift & 255);
  }
  const char mask[4] = {1, 2, 3, 4};
  f.append(mask, 4);
  for (std::size_t i = 0; i < n; ++i) f += static_cast<char>(text[i] ^ mask[i % 4]);
  return f;
}

class web_socket_client {
 public:
  web_socket_client(std::uint16_t port, const std::string& path, const std::string& more = {}) : http(port) {
    http.send(socket_request(path, more));
    status = status_of(http.response());
  }
  bool send(const std::string& text) { return http.send(socket_frame(text)); }

  // The next text; nullopt if the server closes the connection, or after `within`. Answers no
  // pings.
  std::optional<std::string> receive(std::chrono::milliseconds within = std::chrono::seconds(20)) {
    const auto until = http_client::clock::now() + within;
    for (;;) {
      if (auto frame = take()) {
        if (frame->first == 1) return std::move(frame->second);
        if (frame->first == 8) return std::nullopt;
        continue;
      }
      if (!http.more(until)) return std::nullopt;
    }
  }

  http_client http;
  int status = 0;  // of the handshake: 101

 private:
  // Opcode and payload of a whole frame that has arrived.
  std::optional<std::pair<int, std::string>> take() {
    auto& in = http.arrived();
    const auto byte = [&](std::size_t i) { return static_cast<std::uint64_t>(static_cast<unsigned char>(in[i])); };
    if (in.size() < 2) return std::nullopt;
    std::size_t begin = 2;
    auto n = byte(1) & 127;
    const std::size_t more = n == 126 ? 2 : n == 127 ? 8 : 0;
    if (in.size() < begin + more) return std::nullopt;
    if (more > 0) n = 0;
    for (std::size_t i = 0; i < more; ++i) n = n << 8 | byte(begin++);
    if (in.size() < begin + n) return std::nullopt;
    std::pair<int, std::string> frame{static_cast<int>(byte(0) & 15), in.substr(begin, n)};
    in.erase(0, begin + n);
    return frame;
  }
};

}  // namespace troupe::testing_http
