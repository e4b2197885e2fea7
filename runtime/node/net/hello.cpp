#include "runtime/node/net/hello.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/access/names.hpp"
#include "runtime/node/pki/certificates.hpp"

namespace troupe::net {
namespace {

// (resize and copy: GCC 12 reports a false overflow in vector::insert)
void append(std::vector<std::byte>& out, const void* data, std::size_t bytes) {
  const std::size_t at = out.size();
  out.resize(at + bytes);
  if (bytes > 0) std::memcpy(out.data() + at, data, bytes);
}
template <class T>
void put(std::vector<std::byte>& out, T v) {
  append(out, &v, sizeof v);
}
void put(std::vector<std::byte>& out, const std::string& s) {
  put(out, static_cast<std::uint16_t>(s.size()));
  append(out, s.data(), s.size());
}

// Reads from the front. After the first read beyond the end all reads return zero, and ok is false.
struct reader {
  std::span<const std::byte> left;
  bool ok = true;

  template <class T>
  T number() {
    T v{};
    if (!take(sizeof v)) return v;
    std::memcpy(&v, left.data() - sizeof v, sizeof v);
    return v;
  }
  std::string text() {
    const auto n = number<std::uint16_t>();
    if (!take(n)) return {};
    return {reinterpret_cast<const char*>(left.data() - n), n};
  }
  bool take(std::size_t n) {
    ok = ok && n <= left.size();
    if (ok) left = left.subspan(n);
    return ok;
  }
};

}  // namespace

std::vector<std::byte> encode_hello(const hello& h) {
  std::vector<std::byte> out;
  put(out, h.protocol);
  put(out, h.incarnation);
  put(out, h.window);
  put(out, h.max_frame);
  put(out, h.cluster);
  put(out, h.node);
  put(out, h.wanted);
  put(out, h.memory.where.machine);
  put(out, h.memory.where.process);
  put(out, h.memory.where.descriptor);
  put(out, h.memory.token);
  put(out, h.memory.bytes);
  return out;
}

expected<hello, coded_error> decode_hello(std::span<const std::byte> bytes) {
  reader r{bytes};
  hello h;
  h.protocol = r.number<std::uint16_t>();
  // Checked first: another version may encode the rest differently.
  if (r.ok && h.protocol != protocol_version)
    return unexpected(coded_error{"protocol_version", "[hello] the peer speaks protocol " + std::to_string(h.protocol) +
                                                          ", this node speaks " + std::to_string(protocol_version)});
  h.incarnation = r.number<std::uint64_t>();
  h.window = r.number<std::uint64_t>();
  h.max_frame = r.number<std::uint64_t>();
  h.cluster = r.text();
  h.node = r.text();
  h.wanted = r.text();
  h.memory.where.machine = r.text();
  h.memory.where.process = r.number<std::uint32_t>();
  h.memory.where.descriptor = r.number<std::uint32_t>();
  h.memory.token = r.number<std::uint64_t>();
  h.memory.bytes = r.number<std::uint64_t>();
  if (!r.ok || !r.left.empty() || !valid_node_name(h.node) || h.window == 0)
    return unexpected(coded_error{"bad_hello", "[hello] the peer's hello is malformed"});
  return h;
}

std::vector<std::byte> encode_refusal(const coded_error& e) {
  const std::string text = (e.code + "\n" + e.message).substr(0, 1024);
  const auto* p = reinterpret_cast<const std::byte*>(text.data());
  return {p, p + text.size()};
}

coded_error decode_refusal(std::span<const std::byte> bytes) {
  std::string text(reinterpret_cast<const char*>(bytes.data()), std::min<std::size_t>(bytes.size(), 1024));
  const std::size_t end = std::min(text.find('\n'), text.size());
  for (std::size_t i = 0; i < text.size(); ++i)
    if (i != end && (text[i] < ' ' || text[i] > '~')) text[i] = '?';
  return {text.substr(0, end), end < text.size() ? text.substr(end + 1) : std::string()};
}

}  // namespace troupe::net
