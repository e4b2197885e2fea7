// Fields of messages as bytes: numbers little-endian, a string or list as u32 length and its
// content, pairs, arrays and records as their fields in order. Codecs derive from field_writer and
// field_reader (CRTP) and add their own types as overloads of put() and get():
// runtime/messages/wire.cpp, runtime/cluster/messages.cpp, runtime/exchange/hub/wire.cpp.
//
// Errors: a reader is total. After the first fault it reads nothing more, and `error` names that
// fault; a list's length is checked before memory is allocated for it.
// Threads: values, for one thread.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace troupe {

static_assert(std::endian::native == std::endian::little);

template <class T>
concept field_number = std::is_arithmetic_v<T> || std::is_enum_v<T>;
// A struct that lists its fields: static auto fields(S& s) { return std::tie(s.a, s.b); }
template <class T>
concept field_record = requires(T& t) {
  T::fields(t);
};

// Bytes that a value has at least.
template <class T>
inline constexpr std::size_t least_bytes = std::is_arithmetic_v<T> || std::is_enum_v<T> ? sizeof(T) : 1;
template <>
inline constexpr std::size_t least_bytes<std::string> = 4;
template <class T>
inline constexpr std::size_t least_bytes<std::vector<T>> = 4;
template <class A, class B>
inline constexpr std::size_t least_bytes<std::pair<A, B>> = least_bytes<A> + least_bytes<B>;

template <class... F>
constexpr std::size_t least_bytes_of(const std::tuple<F&...>*) {
  return (std::size_t{0} + ... + least_bytes<std::remove_const_t<F>>);
}
template <field_record T>
inline constexpr std::size_t least_bytes<T> =
    std::max<std::size_t>(1, least_bytes_of(static_cast<decltype(T::fields(std::declval<T&>()))*>(nullptr)));

template <class Self>
class field_writer {
 public:
  template <class... F>
  void operator()(const F&... f) {
    (self().put(f), ...);
  }
  void put(field_number auto v) { out.append(reinterpret_cast<const char*>(&v), sizeof v); }
  void put(const std::string& s) {
    put(static_cast<std::uint32_t>(s.size()));
    out += s;
  }
  template <class A, class B>
  void put(const std::pair<A, B>& p) {
    (*this)(p.first, p.second);
  }
  template <class T>
  void put(const std::vector<T>& list) {
    put(static_cast<std::uint32_t>(list.size()));
    for (const auto& x : list) self().put(x);
  }
  template <class T, std::size_t N>
  void put(const std::array<T, N>& list) {
    for (const auto& x : list) self().put(x);
  }
  template <field_record T>
  void put(const T& t) {
    std::apply(*this, T::fields(t));
  }
  // The index as one byte, then the alternative: a record, or a struct without fields.
  template <class... K>
  void put(const std::variant<K...>& v) {
    static_assert(sizeof...(K) <= 255);
    put(static_cast<std::uint8_t>(v.index()));
    std::visit(
        [this]<class T>(const T& k) {
          if constexpr (!std::is_empty_v<T>) self().put(k);
        },
        v);
  }

  std::string out;

 private:
  Self& self() { return static_cast<Self&>(*this); }
};

template <class Self>
class field_reader {
 public:
  field_reader(const void* data, std::size_t bytes) : at_(static_cast<const char*>(data)), left_(bytes) {}

  template <class... F>
  void operator()(F&... f) {
    (self().get(f), ...);
  }
  void get(field_number auto& v) {
    if (!need(sizeof v)) return;
    std::memcpy(&v, at_, sizeof v);
    skip(sizeof v);
  }
  void get(bool& v) {
    std::uint8_t n = 0;
    get(n);
    if (n > 1) fail("a bool is neither 0 nor 1");
    v = n == 1;
  }
  void get(std::string& s) {
    const auto n = count(1, "a string is longer than the message");
    s.assign(at_, n);
    skip(n);
  }
  template <class A, class B>
  void get(std::pair<A, B>& p) {
    (*this)(p.first, p.second);
  }
  template <class T>
  void get(std::vector<T>& list) {
    get_list(list, count(least_bytes<T>, "a list is longer than the message"));
  }
  template <class T, std::size_t N>
  void get(std::array<T, N>& list) {
    for (auto& x : list) self().get(x);
  }
  template <field_record T>
  void get(T& t) {
    std::apply(*this, T::fields(t));
  }
  template <class... K>
  void get(std::variant<K...>& v) {
    std::uint8_t index = 0;
    get(index);
    if (index >= sizeof...(K)) fail("unknown kind of a value");
    if (error.empty()) get_alternative<0>(index, v);
  }
  // Nothing has failed, and all bytes are read.
  bool complete() const { return error.empty() && left_ == 0; }

  std::string error;

 protected:
  void fail(std::string what) {
    if (error.empty()) error = std::move(what);
  }
  bool need(std::size_t n) {
    if (error.empty() && left_ < n) fail("the fields end early");
    return error.empty();
  }
  void skip(std::size_t n) { at_ += n, left_ -= n; }
  // A length of elements that take at least `each` bytes; 0 after a fault.
  std::size_t count(std::size_t each, const char* too_many, std::uint32_t most = std::numeric_limits<std::uint32_t>::max()) {
    std::uint32_t n = 0;
    get(n);
    if (n > most || n > left_ / each) fail(too_many);
    return error.empty() ? n : 0;
  }
  template <std::size_t I, class... K>
  void get_alternative(std::size_t index, std::variant<K...>& v) {
    if constexpr (I < sizeof...(K)) {
      if (index != I) return get_alternative<I + 1>(index, v);
      [[maybe_unused]] auto& k = v.template emplace<I>();
      if constexpr (!std::is_empty_v<std::variant_alternative_t<I, std::variant<K...>>>) self().get(k);
    }
  }
  template <class T>
  void get_list(std::vector<T>& list, std::size_t n) {
    list.reserve(n);
    for (std::size_t i = 0; i < n && error.empty(); ++i) self().get(list.emplace_back());
  }

  const char* at_;
  std::size_t left_;

 private:
  Self& self() { return static_cast<Self&>(*this); }
};

}  // namespace troupe
