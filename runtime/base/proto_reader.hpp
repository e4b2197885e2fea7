// Reads the fields of a protobuf message, one after the other (proto_message.hpp writes them).
//   for (proto_reader in(bytes); in.next();) if (in.field() == 7) ... in.number() ...
// Total: malformed bytes end the loop, and failed() says so. Groups, which protobuf has given up,
// count as malformed.
// Threads: a value; the bytes must outlive it.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace troupe {

class proto_reader {
 public:
  explicit proto_reader(std::string_view bytes) : left_(bytes) {}

  bool next() {
    if (left_.empty() || failed_) return false;
    const auto key = varint();
    field_ = static_cast<std::uint32_t>(key >> 3);
    bytes_ = {};
    switch (key & 7) {
      case 0: number_ = varint(); break;
      case 1: number_ = fixed(8); break;
      case 2: bytes_ = take(varint()); break;
      case 5: number_ = fixed(4); break;
      default: failed_ = true;
    }
    return !failed_;
  }
  std::uint32_t field() const { return field_; }
  std::uint64_t number() const { return number_; }   // varint, fixed64, fixed32
  std::string_view bytes() const { return bytes_; }  // strings and messages; else empty
  bool failed() const { return failed_; }

 private:
  std::uint64_t varint() {
    std::uint64_t v = 0;
    for (unsigned shift = 0; shift < 64 && !left_.empty(); shift += 7) {
      const auto c = static_cast<unsigned char>(left_.front());
      left_.remove_prefix(1);
      v |= std::uint64_t{c & 0x7fu} << shift;
      if (c < 0x80) return v;
    }
    failed_ = true;
    return 0;
  }
  std::uint64_t fixed(std::size_t n) {
    const auto from = take(n);
    std::uint64_t v = 0;
    if (!failed_) std::memcpy(&v, from.data(), n);
    return v;
  }
  std::string_view take(std::uint64_t n) {
    if (failed_ || n > left_.size()) return failed_ = true, std::string_view{};
    const auto from = left_.substr(0, static_cast<std::size_t>(n));
    left_.remove_prefix(from.size());
    return from;
  }

  std::string_view left_, bytes_;
  std::uint32_t field_ = 0;
  std::uint64_t number_ = 0;
  bool failed_ = false;
};

}  // namespace troupe
