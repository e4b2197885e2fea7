#include "actors/control/messages.hpp"

#include <bit>
#include <cstring>
#include <memory>
#include <type_traits>

namespace troupe::control {
namespace {

static_assert(std::endian::native == std::endian::little);

template <class T>
concept record = requires(T& t) {
  T::fields(t);
};

struct writer {
  std::string out;

  template <class T>
  requires std::is_arithmetic_v<T>
  void put(T v) { out.append(reinterpret_cast<const char*>(&v), sizeof v); }
  void put(const std::string& s) {
    put(static_cast<std::uint32_t>(s.size()));
    out += s;
  }
  template <class A, class B>
  void put(const std::pair<A, B>& p) {
    put(p.first);
    put(p.second);
  }
  template <class T>
  void put(const std::vector<T>& v) {
    put(static_cast<std::uint32_t>(v.size()));
    for (const auto& x : v) put(x);
  }
  template <record T>
  void put(const T& t) {
    std::apply([this](const auto&... x) { (put(x), ...); }, T::fields(t));
  }
};

// Reads values in order. When too few bytes are left, `ok` becomes false and nothing more is read.
struct reader {
  const char* at;
  std::size_t left;
  bool ok = true;

  bool need(std::size_t n) {
    if (ok && n > left) ok = false;
    return ok;
  }
  template <class T>
  requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) void get(T& v) {
    if (!need(sizeof v)) return;
    std::memcpy(&v, at, sizeof v);
    at += sizeof v;
    left -= sizeof v;
  }
  void get(bool& v) {
    std::uint8_t b = 0;
    get(b);
    if (b > 1) ok = false;
    v = b == 1;
  }
  void get(std::string& s) {
    std::uint32_t n = 0;
    get(n);
    if (!need(n)) return;
    s.assign(at, n);
    at += n;
    left -= n;
  }
  template <class A, class B>
  void get(std::pair<A, B>& p) {
    get(p.first);
    get(p.second);
  }
  // Every element takes at least one byte of input. Memory is taken per element and not by the
  // count, which may be false.
  template <class T>
  void get(std::vector<T>& v) {
    std::uint32_t n = 0;
    get(n);
    if (!need(n)) return;
    for (std::uint32_t i = 0; i < n && ok; ++i) get(v.emplace_back());
  }
  template <record T>
  void get(T& t) {
    std::apply([this](auto&... x) { (get(x), ...); }, T::fields(t));
  }
};

template <std::size_t I = 0>
std::optional<message> decode_as(std::size_t index, reader& in) {
  if constexpr (I == std::variant_size_v<message>) {
    return std::nullopt;
  } else {
    if (index != I) return decode_as<I + 1>(index, in);
    std::variant_alternative_t<I, message> m;
    in.get(m);
    if (!in.ok || in.left != 0) return std::nullopt;
    return message(std::in_place_index<I>, std::move(m));
  }
}

}  // namespace

std::string encode(const message& m) {
  writer w;
  std::visit([&](const auto& x) { w.put(x); }, m);
  return std::move(w.out);
}

std::optional<message> decode(std::uint16_t type, const char* data, std::size_t bytes) {
  if (type == 0 || bytes > max_message) return std::nullopt;
  reader in{data, bytes};
  return decode_as(type - 1u, in);
}

net::outgoing_frame to_frame(const message& m) {
  auto bytes = std::make_shared<const std::string>(encode(m));
  net::outgoing_frame f;
  f.type = static_cast<std::uint16_t>(m.index() + 1);
  f.parts.push_back({bytes->data(), bytes->size(), bytes});
  return f;
}

std::optional<message> from_frame(const net::frame& f) {
  return decode(f.type, reinterpret_cast<const char*>(f.payload.get()), f.bytes);
}

}  // namespace troupe::control
