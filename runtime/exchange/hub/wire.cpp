#include "runtime/exchange/hub/wire.hpp"

#include <type_traits>
#include <utility>

#include "runtime/base/field_archive.hpp"

namespace troupe::exchange {
namespace {

// The fields of each message, once for both directions. `io` is a writer or a reader.
template <class IO, class T>
requires std::is_same_v<std::remove_const_t<T>, open_session>
void fields(IO& io, T& m) {
  io(m.version);
  io.text(m.session, max_name);
  io(m.rank, m.size);
  io.choice(m.how, averaging_methods);
  io(m.alpha);
}
template <class IO, class T>
requires(std::is_same_v<std::remove_const_t<T>, declare> || std::is_same_v<std::remove_const_t<T>, share>) void fields(IO& io,
                                                                                                                       T& m) {
  io(m.call);
  io.text(m.name, max_name);
  io.choice(m.type, elements);
  io(m.count);
}
template <class IO, class T>
requires std::is_same_v<std::remove_const_t<T>, begin>
void fields(IO& io, T& m) {
  io(m.call);
  io.choice(m.what, collective_ops);
  io(m.buffer, m.argument);
  io.choice(m.how, meetings);
}
template <class IO, class T>
requires std::is_same_v<std::remove_const_t<T>, piece>
void fields(IO& io, T& m) {
  io(m.call, m.offset);
  io.rest(m.data);
}
template <class IO, class T>
requires(std::is_same_v<std::remove_const_t<T>, take_lock> || std::is_same_v<std::remove_const_t<T>, free_lock>) void fields(IO& io,
                                                                                                                             T& m) {
  io(m.call);
  io.text(m.name, max_name);
}
template <class IO, class T>
requires std::is_same_v<std::remove_const_t<T>, cancel>
void fields(IO& io, T& m) { io(m.call); }
template <class IO, class T>
requires std::is_same_v<std::remove_const_t<T>, leave>
void fields(IO&, T&) {}
template <class IO, class T>
requires std::is_same_v<std::remove_const_t<T>, answer>
void fields(IO& io, T& m) {
  io(m.call);
  io.choice(m.code, codes);
  io.text(m.text, max_text);
  io(m.value, m.bytes);
}
template <class IO, class T>
requires std::is_same_v<std::remove_const_t<T>, shared_at>
void fields(IO& io, T& m) {
  io(m.call, m.id);
  io.choice(m.now, contents_kinds);
  io(m.process, m.descriptor, m.token);
  io.text(m.machine, max_name);
}
template <class IO, class T>
requires std::is_same_v<std::remove_const_t<T>, filled>
void fields(IO& io, T& m) {
  io(m.id);
  io.choice(m.now, contents_kinds);
}

struct writer : field_writer<writer> {
  template <class E>
  void choice(E e, std::uint8_t) {
    put(static_cast<std::uint8_t>(e));
  }
  void text(const std::string& s, std::size_t most) { put(s.size() <= most ? s : s.substr(0, most)); }
  void rest(const view& v) { tail = v; }

  view tail;
};

struct reader : field_reader<reader> {
  reader(std::span<const std::byte> payload, const std::shared_ptr<const void>& o)
      : field_reader(payload.data(), payload.size()), owner(o) {}

  template <class E>
  void choice(E& e, std::uint8_t count) {
    std::uint8_t v = 0;
    get(v);
    if (v >= count) return fail("an unknown choice");
    e = static_cast<E>(v);
  }
  void text(std::string& s, std::size_t most) {
    get(s);
    if (s.size() > most) fail("a text is too long");
  }
  void rest(view& v) {
    if (left_ == 0 || left_ > piece_bytes) return fail("a piece is empty or too large");
    v = {owner, reinterpret_cast<const std::byte*>(at_), left_};
    skip(left_);
  }

  const std::shared_ptr<const void>& owner;
};

template <std::size_t I = 0>
std::optional<message> decode_as(std::size_t index, reader& in) {
  if constexpr (I == std::variant_size_v<message>) {
    return std::nullopt;
  } else {
    if (index != I) return decode_as<I + 1>(index, in);
    std::variant_alternative_t<I, message> m;
    fields(in, m);
    if (!in.complete()) return std::nullopt;
    return message(std::in_place_index<I>, std::move(m));
  }
}

}  // namespace

encoded encode(const message& m) {
  writer out;
  std::visit([&](const auto& x) { fields(out, x); }, m);
  return {static_cast<std::uint16_t>(first_type + m.index()), std::move(out.out), std::move(out.tail)};
}

std::optional<message> decode(std::uint16_t type, std::span<const std::byte> payload, std::shared_ptr<const void> owner) {
  if (!is_exchange_type(type)) return std::nullopt;
  reader in(payload, owner);
  return decode_as(static_cast<std::size_t>(type - first_type), in);
}

}  // namespace troupe::exchange
