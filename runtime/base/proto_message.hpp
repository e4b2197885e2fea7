// Encodes fields of a protobuf message, for files that other programs read (TensorBoard, Perfetto).
// The caller supplies the field numbers of the published .proto file.
//   proto_message{}.number(1, 7).bytes(2, "name").encoded()
// Threads: a value. Errors: none.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

class proto_message {
 public:
  proto_message& number(std::uint32_t field,
                        std::uint64_t v) {  // bool, enum, uint32, uint64; int32 and int64 that are not negative
    key(field, 0);
    return varint(v);
  }
  proto_message& real(std::uint32_t field, double v) {
    key(field, 1);
    return raw(v);
  }
  proto_message& real32(std::uint32_t field, float v) {
    key(field, 5);
    return raw(v);
  }
  proto_message& fixed(std::uint32_t field, std::uint64_t v) {  // fixed64
    key(field, 1);
    return raw(v);
  }
  proto_message& bytes(std::uint32_t field, std::string_view v) {  // also strings and messages
    key(field, 2);
    varint(v.size());
    out_ += v;
    return *this;
  }
  proto_message& bytes(std::uint32_t field, std::string_view v, std::string_view rest) {  // `v` and `rest` as one
    key(field, 2);
    varint(v.size() + rest.size());
    out_ += v;
    out_ += rest;
    return *this;
  }
  proto_message& message(std::uint32_t field, const proto_message& m) { return bytes(field, m.out_); }
  proto_message& reals(std::uint32_t field, const std::vector<double>& all) {  // packed
    key(field, 2);
    varint(all.size() * sizeof(double));
    for (double v : all) raw(v);
    return *this;
  }
  const std::string& encoded() const { return out_; }
  void clear() { out_.clear(); }

 private:
  static_assert(std::endian::native == std::endian::little);

  void key(std::uint32_t field, std::uint32_t wire_type) { varint(field << 3 | wire_type); }
  proto_message& varint(std::uint64_t v) {
    for (; v >= 0x80; v >>= 7) out_ += static_cast<char>(v | 0x80);
    out_ += static_cast<char>(v);
    return *this;
  }
  template <class T>
  proto_message& raw(T v) {
    out_.append(reinterpret_cast<const char*>(&v), sizeof v);
    return *this;
  }

  std::string out_;
};

}  // namespace troupe
