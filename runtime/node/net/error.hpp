// Errors as values (GCC 12 has no std::expected). `code` is a stable identifier that programs
// compare; `message` is for users.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace troupe::net {

struct error {
  std::string code;     // stable, snake_case: "address_in_use", "peer_silent"
  std::string message;  // one sentence, names the file, peer or address
};

// A value or an error; the few members of std::expected that we use, under the same names.
template <class T>
class [[nodiscard]] expected {
 public:
  expected(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  expected(net::error e) : state_(std::in_place_index<1>, std::move(e)) {}

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  // Requires has_value(); otherwise throws std::bad_variant_access.
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const net::error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, net::error> state_;
};

template <>
class [[nodiscard]] expected<void> {
 public:
  expected() = default;
  expected(net::error e) : state_(std::in_place_index<1>, std::move(e)) {}

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  const net::error& error() const { return std::get<1>(state_); }

 private:
  std::variant<std::monostate, net::error> state_;
};

}  // namespace troupe::net
