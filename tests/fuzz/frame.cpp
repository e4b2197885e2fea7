// Fuzz target: the bytes of a connection, whole and in pieces. Most inputs get valid checksums, so
// that later checks are reached.
#include <array>
#include <memory>

#include "runtime/node/net/frame.hpp"
#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {
namespace {

using namespace net;

void feed(std::span<const std::byte> bytes, std::size_t piece, bool data) {
  std::size_t held = 0;
  frame_parser p(1 << 20, [&held](const frame_header& h) -> expected<std::shared_ptr<std::byte>, coded_error> {
    const auto n = static_cast<std::size_t>(h.length);
    if ((held += n) > (std::size_t{8} << 20)) return unexpected(coded_error{"out_of_memory", "enough"});
    return std::shared_ptr<std::byte>(new std::byte[n], std::default_delete<std::byte[]>());
  });
  p.allow_data(data);
  frame f;
  while (!bytes.empty()) {
    auto part = bytes.first(piece < bytes.size() ? piece : bytes.size());
    bytes = bytes.subspan(part.size());
    for (auto r = p.next(part, f); r != frame_parser::result::need_more; r = p.next(part, f)) {
      if (r == frame_parser::result::failed) return must(!p.failure().code.empty(), "a failure without a code");
      must(f.payload != nullptr, "a frame without a payload");
      held -= f.type >= first_reserved_type || held < f.bytes ? 0 : f.bytes;
    }
    must(part.empty(), "bytes are left over");
  }
}

std::vector<std::byte> sealed(reader r) {
  std::vector<std::byte> out;
  while (!r.done()) {
    frame_header h;
    h.type = static_cast<std::uint16_t>(r.number(2));
    h.stream = static_cast<std::uint8_t>(r.number(1));
    h.continues = h.stream & 0x80;
    h.shares = h.stream & 0x40;
    h.stream &= 0x3f;
    h.id = r.number(1);
    h.length = r.number(3);
    const auto chunk = r.take(h.length > 300 && r.rest().size() < h.length ? r.rest().size() : static_cast<std::size_t>(h.chunk()));
    std::array<std::byte, header_bytes> head;
    seal_header(h, std::array<input, 1>{chunk}, head);
    out.insert(out.end(), head.begin(), head.end());
    const auto* b = reinterpret_cast<const std::byte*>(chunk.data());
    out.insert(out.end(), b, b + chunk.size());
  }
  return out;
}

void read_frame(input in) {
  reader r(in);
  const auto how = r.number(1);
  const auto piece = 1 + static_cast<std::size_t>(how >> 2) * 7;
  if (how & 1) return feed(sealed(r), piece, (how & 2) == 0);
  feed(std::as_bytes(r.rest()), piece, (how & 2) == 0);
}

std::vector<std::string> sound_frame() {
  std::vector<std::string> all;
  for (const char how : {'\xfd', '\x05', '\x07'}) {
    std::string s(1, how);
    s += std::string("\1\0\0\5\4\0\0abcd", 11) + std::string("\0\xff\0\0\0\0\0", 7) + std::string("\2\0\1\6\10\0\0abcdefgh", 15);
    all.push_back(s);
  }
  const std::vector<std::byte> bytes =
      sealed(reader(input(reinterpret_cast<const std::uint8_t*>(all[0].data()) + 1, all[0].size() - 1)));
  all.push_back(std::string(1, '\xfc') + text(bytes));
  return all;
}

const entry frame_entry({"frame", read_frame, sound_frame});

}  // namespace
}  // namespace troupe::fuzz
