// Encoding of a node's logs, little-endian:
//
//   "troupe messages 2\n"
//   job, node (each u32 length, bytes), u32 roles
//   of each role: u32 id, u64 handled, u64 dropped, failure (u32 length, bytes),
//                 u32 chunks, each u32 length, bytes
//   CRC32C of everything before it
#include <algorithm>

#include "runtime/checksum/crc32c.hpp"
#include "runtime/replay/delivery_log.hpp"

namespace troupe::replay {
namespace {

constexpr std::string_view log_magic = "troupe messages 2\n";

template <class T>
void put_fixed(std::string& out, T n) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>(n >> (8 * i)));
}
void put_text(std::string& out, std::string_view s) {
  put_fixed(out, static_cast<std::uint32_t>(s.size()));
  out += s;
}

class log_bytes {
 public:
  explicit log_bytes(std::string_view all) : left_(all) {}
  template <class T>
  T fixed() {
    T n = 0;
    if (left_.size() < sizeof(T)) return wrong_ = true, n;
    for (std::size_t i = 0; i < sizeof(T); ++i)
      n = static_cast<T>(n | static_cast<T>(T{static_cast<std::uint8_t>(left_[i])} << (8 * i)));
    left_.remove_prefix(sizeof(T));
    return n;
  }
  std::string text() {
    const auto n = fixed<std::uint32_t>();
    if (n > left_.size()) wrong_ = true;
    if (wrong_) return {};
    std::string s(left_.substr(0, n));
    left_.remove_prefix(n);
    return s;
  }
  // Reads a number of items that take at least `least` bytes each.
  std::uint32_t count(std::size_t least) {
    const auto n = fixed<std::uint32_t>();
    if (n > left_.size() / least) wrong_ = true;
    return wrong_ ? 0 : n;
  }
  bool wrong() const { return wrong_; }
  bool done() const { return left_.empty(); }

 private:
  std::string_view left_;
  bool wrong_ = false;
};

}  // namespace

bool node_part::complete() const {
  return std::all_of(roles.begin(), roles.end(), [](const role_part& r) { return r.dropped == 0; });
}

std::string to_bytes(const node_part& p) {
  std::string out(log_magic);
  put_text(out, p.job);
  put_text(out, p.node);
  put_fixed(out, static_cast<std::uint32_t>(p.roles.size()));
  for (const auto& r : p.roles) {
    put_fixed(out, index_of(r.id));
    put_fixed(out, r.handled);
    put_fixed(out, r.dropped);
    put_text(out, r.failure);
    put_fixed(out, static_cast<std::uint32_t>(r.chunks.size()));
    for (const auto& c : r.chunks) put_text(out, c);
  }
  put_fixed(out, crc32c(0, out.data(), out.size()));
  return out;
}

expected<node_part> from_bytes(std::string_view bytes) {
  if (!bytes.starts_with(log_magic)) return unexpected(error("it is not a message log of this version of Troupe"));
  if (bytes.size() < log_magic.size() + 4) return unexpected(error("it has been cut short"));
  const auto body = bytes.substr(0, bytes.size() - 4);
  if (log_bytes(bytes.substr(body.size())).fixed<std::uint32_t>() != crc32c(0, body.data(), body.size()))
    return unexpected(error("its checksum is wrong: it is damaged or has been cut short"));
  log_bytes in(body.substr(log_magic.size()));
  node_part p;
  p.job = in.text();
  p.node = in.text();
  for (auto n = in.count(28); n > 0 && !in.wrong(); --n) {
    role_part r;
    r.id = role_id{in.fixed<std::uint32_t>()};
    r.handled = in.fixed<std::uint64_t>();
    r.dropped = in.fixed<std::uint64_t>();
    r.failure = in.text();
    for (auto c = in.count(4); c > 0 && !in.wrong(); --c) r.chunks.push_back(in.text());
    p.roles.push_back(std::move(r));
  }
  if (in.wrong() || !in.done()) return unexpected(error("its contents are inconsistent"));
  return p;
}

}  // namespace troupe::replay
