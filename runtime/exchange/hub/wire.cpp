#include "runtime/exchange/hub/wire.hpp"

#include <bit>
#include <cstring>
#include <type_traits>

namespace troupe::exchange {
namespace {

static_assert(std::endian::native == std::endian::little);

// The fields of each message, once for both directions. `io` is a writer or a reader.
template <class IO, class T>
requires std::is_same_v<std::remove_const_t<T>, open_session>
void fields(IO& io, T& m) {
  io.number(m.version);
  io.text(m.session, max_name);
  io.number(m.rank);
  io.number(m.size);
  io.choice(m.how, averaging_methods);
  io.number(m.alpha);
}
template <class IO, class T>
requires(std::is_same_v<std::remove_const_t<T>, declare> || std::is_same_v<std::remove_const_t<T>, share>) void fields(IO& io,
                                                                                                                       T& m) {
  io.number(m.call);
  io.text(m.name, max_name);
  io.choice(m.type, elements);
  io.number(m.count);
}
template <class IO, class T>
requires std::is_same_v<std::remove_const_t<T>, begin>
void fields(IO& io, T& m) {
  io.number(m.call);
  io.choice(m.what, collective_ops);
  io.number(m.buffer);
  io.number(m.argument);
  io.choice(m.how, meetings);
}
template <class IO, class T>
requires std::is_same_v<std::remove_const_t<T>, piece>
void fields(IO& io, T& m) {
  io.number(m.call);
  io.number(m.offset);
  io.rest(m.data);
}
template <class IO, class T>
requires(std::is_same_v<std::remove_const_t<T>, take_lock> || std::is_same_v<std::remove_const_t<T>, free_lock>) void fields(IO& io,
                                                                                                                             T& m) {
  io.number(m.call);
  io.text(m.name, max_name);
}
template <class IO, class T>
requires std::is_same_v<std::remove_const_t<T>, cancel>
void fields(IO& io, T& m) { io.number(m.call); }
template <class IO, class T>
requires std::is_same_v<std::remove_const_t<T>, leave>
void fields(IO&, T&) {}
template <class IO, class T>
requires std::is_same_v<std::remove_const_t<T>, answer>
void fields(IO& io, T& m) {
  io.number(m.call);
  io.choice(m.code, codes);
  io.text(m.text, max_text);
  io.number(m.value);
  io.number(m.bytes);
}
template <class IO, class T>
requires std::is_same_v<std::remove_const_t<T>, shared_at>
void fields(IO& io, T& m) {
  io.number(m.call);
  io.number(m.id);
  io.choice(m.now, contents_kinds);
  io.number(m.process);
  io.number(m.descriptor);
  io.number(m.token);
  io.text(m.machine, max_name);
}
template <class IO, class T>
requires std::is_same_v<std::remove_const_t<T>, filled>
void fields(IO& io, T& m) {
  io.number(m.id);
  io.choice(m.now, contents_kinds);
}

struct writer {
  encoded& out;

  template <class T>
  void number(T v) {
    out.head.append(reinterpret_cast<const char*>(&v), sizeof v);
  }
  template <class E>
  void choice(E e, std::uint8_t) {
    number(static_cast<std::uint8_t>(e));
  }
  void text(const std::string& s, std::size_t most) {
    const auto n = s.size() < most ? s.size() : most;
    number(static_cast<std::uint32_t>(n));
    out.head.append(s, 0, n);
  }
  void rest(const view& v) { out.tail = v; }
};

// After the first error nothing more is read, and ok stays false.
struct reader {
  const std::byte* at;
  std::size_t left;
  const std::shared_ptr<const void>& owner;
  bool ok = true;

  bool need(std::size_t n) {
    if (ok && n > left) ok = false;
    return ok;
  }
  void skip(std::size_t n) {
    at += n;
    left -= n;
  }
  template <class T>
  void number(T& v) {
    if (!need(sizeof v)) return;
    std::memcpy(&v, at, sizeof v);
    skip(sizeof v);
  }
  template <class E>
  void choice(E& e, std::uint8_t count) {
    std::uint8_t v = 0;
    number(v);
    if (v >= count) ok = false;
    if (ok) e = static_cast<E>(v);
  }
  void text(std::string& s, std::size_t most) {
    std::uint32_t n = 0;
    number(n);
    if (n > most) ok = false;
    if (!need(n)) return;
    s.assign(reinterpret_cast<const char*>(at), n);
    skip(n);
  }
  void rest(view& v) {
    if (!ok || left == 0 || left > piece_bytes) {
      ok = false;
      return;
    }
    v = {owner, at, left};
    skip(left);
  }
};

template <std::size_t I = 0>
std::optional<message> decode_as(std::size_t index, reader& in) {
  if constexpr (I == std::variant_size_v<message>) {
    return std::nullopt;
  } else {
    if (index != I) return decode_as<I + 1>(index, in);
    std::variant_alternative_t<I, message> m;
    fields(in, m);
    if (!in.ok || in.left != 0) return std::nullopt;
    return message(std::in_place_index<I>, std::move(m));
  }
}

}  // namespace

encoded encode(const message& m) {
  encoded e;
  e.type = static_cast<std::uint16_t>(first_type + m.index());
  writer out{e};
  std::visit([&](const auto& x) { fields(out, x); }, m);
  return e;
}

std::optional<message> decode(std::uint16_t type, std::span<const std::byte> payload, std::shared_ptr<const void> owner) {
  if (!is_exchange_type(type)) return std::nullopt;
  reader in{payload.data(), payload.size(), owner};
  return decode_as(static_cast<std::size_t>(type - first_type), in);
}

}  // namespace troupe::exchange
