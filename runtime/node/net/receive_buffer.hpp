// Read buffer of a connection: bytes are read directly into their place in a payload or, between
// payloads, into a staging buffer from which the parser takes them.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/node/net/frame.hpp"

namespace troupe::net {

class receive_buffer {
 public:
  static constexpr std::size_t staging_bytes = 32 << 10;

  receive_buffer(std::uint64_t max_frame, frame_parser::allocator allocate) : parser_(max_frame, std::move(allocate)) {}

  // Until the peer is accepted, a data frame is an error.
  void allow_data() { parser_.allow_data(true); }

  // The buffer for the next read, filled from its front; valid until received().
  std::span<std::byte> room() {
    auto into = parser_.window();
    direct_ = !into.empty();
    if (direct_) return into;
    staging_.resize(staging_bytes);
    return staging_;
  }
  // `n` bytes have been read; next() returns the frames that they complete.
  void received(std::size_t n) {
    unread_ = std::span<const std::byte>(staging_).first(direct_ ? 0 : n);
    if (direct_) parser_.commit(n);
  }
  frame_parser::result next(frame& out) { return parser_.next(unread_, out); }
  bool shares() const { return parser_.shares(); }  // of the frame that next() returned
  const coded_error& failure() const { return parser_.failure(); }

 private:
  frame_parser parser_;
  std::vector<std::byte> staging_;
  std::span<const std::byte> unread_;  // of staging_
  bool direct_ = false;
};

}  // namespace troupe::net
