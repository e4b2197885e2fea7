// Errors as values: `expected<T, E>` is a value or an error, with the names and the meaning of
// C++23's std::expected (libstdc++ 12 has none).
//
//   expected<config> read(const std::string& file) {
//     if (!exists(file)) return unexpected(error("cannot open it: no such file"));
//     ...
//   }
//   auto c = read(file);
//   if (!c) return unexpected(c.error().in(file));
//   use(*c);
//
// E is `error`, a text; `diagnostics` (diagnostic.hpp) where a parser finds several mistakes in a
// file; or a type with fields that callers need.
// Errors: access to the side that is not there is a bug of the caller and violates an invariant
// (runtime/base/invariant.hpp). std::expected throws std::bad_expected_access or has undefined
// behaviour.
#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "runtime/base/diagnostic.hpp"
#include "runtime/base/invariant.hpp"

namespace troupe {

// Says what is wrong, where, and if possible what to do. For people; programs do not compare it.
struct error {
  std::string text;

  explicit error(std::string what) : text(std::move(what)) {}
  // This error with its place in front: error("no such file").in("job 3") is "job 3: no such file".
  [[nodiscard]] error in(std::string_view place) const { return error(std::string(place).append(": ").append(text)); }
};

// An error that programs distinguish.
struct coded_error {
  std::string code;     // stable, snake_case: "address_in_use", "peer_silent"
  std::string message;  // one sentence for people, names the file, peer or address
};

// The first of several mistakes, for callers that can report one. `otherwise`: its text if the list
// is empty.
inline error first_of(const diagnostics& all, const char* otherwise) {
  return error(all.empty() ? otherwise : all.front().to_string());
}

// All of several mistakes, one per line.
inline error all_of(const diagnostics& all) {
  std::string lines;
  for (const auto& d : all) lines += (lines.empty() ? "" : "\n") + d.to_string();
  return error(std::move(lines));
}

// Makes an expected of an error: return unexpected(error("...")).
template <class E>
class [[nodiscard]] unexpected {
 public:
  explicit unexpected(E e) : error_(std::move(e)) {}

  const E& error() const& { return error_; }
  E&& error() && { return std::move(error_); }

 private:
  E error_;
};

template <class T, class E = troupe::error>
class expected;

namespace result_detail {

template <class T>
inline constexpr bool is_expected = false;
template <class T, class E>
inline constexpr bool is_expected<expected<T, E>> = true;
template <class T>
inline constexpr bool is_unexpected = false;
template <class E>
inline constexpr bool is_unexpected<unexpected<E>> = true;

// What expected<void> stores in place of a value.
struct no_value {};

// f(value), or f() if there is none.
template <class F, class V>
decltype(auto) call(F&& f, V&& value) {
  if constexpr (std::is_same_v<std::remove_cvref_t<V>, no_value>)
    return std::invoke(std::forward<F>(f));
  else
    return std::invoke(std::forward<F>(f), std::forward<V>(value));
}
template <class F, class V>
using called = std::remove_cvref_t<decltype(call(std::declval<F>(), std::declval<V>()))>;

// The members that do not depend on whether there is a value. `V`: T, or no_value.
template <class V, class E>
class [[nodiscard]] either {
 public:
  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  const E& error() const& { return failure(state_); }
  E& error() & { return failure(state_); }
  E&& error() && { return std::move(failure(state_)); }

  // f(value) if there is a value; f returns an expected with the same type of error. Else the
  // error.
  template <class F>
  auto and_then(F&& f) const& {
    return and_then_of(*this, std::forward<F>(f));
  }
  template <class F>
  auto and_then(F&& f) && {
    return and_then_of(std::move(*this), std::forward<F>(f));
  }
  // An expected of f(value) if there is a value; f may return void. Else the error.
  template <class F>
  auto transform(F&& f) const& {
    return transform_of(*this, std::forward<F>(f));
  }
  template <class F>
  auto transform(F&& f) && {
    return transform_of(std::move(*this), std::forward<F>(f));
  }
  // The value if there is one. Else f(error), which is the error of the result.
  template <class F>
  auto transform_error(F&& f) const& {
    return transform_error_of(*this, std::forward<F>(f));
  }
  template <class F>
  auto transform_error(F&& f) && {
    return transform_error_of(std::move(*this), std::forward<F>(f));
  }

 protected:
  template <std::size_t Side, class... Args>
  explicit either(std::in_place_index_t<Side> side, Args&&... args) : state_(side, std::forward<Args>(args)...) {}

  template <class State>
  static auto& success(State& s) {
    invariant(s.index() == 0, "an expected that has an error has no value");
    return *std::get_if<0>(&s);
  }
  template <class State>
  static auto& failure(State& s) {
    invariant(s.index() == 1, "an expected that has a value has no error");
    return *std::get_if<1>(&s);
  }

  std::variant<V, E> state_;

 private:
  // Like std::forward_like: what `s` holds, movable if `s` is.
  template <class Self, class Part>
  static auto&& part(Part& p) {
    if constexpr (std::is_lvalue_reference_v<Self>)
      return p;
    else
      return std::move(p);
  }
  template <class Self, class F>
  static auto and_then_of(Self&& s, F&& f) {
    using result = called<F, decltype(part<Self>(success(s.state_)))>;
    static_assert(is_expected<result>, "the function of and_then returns an expected");
    if (!s.has_value()) return result(unexpected<E>(part<Self>(failure(s.state_))));
    return call(std::forward<F>(f), part<Self>(success(s.state_)));
  }
  template <class Self, class F>
  static auto transform_of(Self&& s, F&& f) {
    using value = called<F, decltype(part<Self>(success(s.state_)))>;
    using result = expected<value, E>;
    if (!s.has_value()) return result(unexpected<E>(part<Self>(failure(s.state_))));
    if constexpr (std::is_void_v<value>) {
      call(std::forward<F>(f), part<Self>(success(s.state_)));
      return result();
    } else {
      return result(call(std::forward<F>(f), part<Self>(success(s.state_))));
    }
  }
  template <class Self, class F>
  static auto transform_error_of(Self&& s, F&& f) {
    using other = called<F, decltype(part<Self>(failure(s.state_)))>;
    using result = expected<std::conditional_t<std::is_same_v<V, no_value>, void, V>, other>;
    if (!s.has_value()) return result(unexpected<other>(std::invoke(std::forward<F>(f), part<Self>(failure(s.state_)))));
    if constexpr (std::is_same_v<V, no_value>)
      return result();
    else
      return result(part<Self>(success(s.state_)));
  }
};

}  // namespace result_detail

// A value of type T, or an error of type E.
template <class T, class E>
class [[nodiscard]] expected : public result_detail::either<T, E> {
  using base = result_detail::either<T, E>;

 public:
  using value_type = T;
  using error_type = E;

  expected() requires std::default_initializable<T> : base(std::in_place_index<0>) {}
  // NOLINTBEGIN(bugprone-forwarding-reference-overload): the requirement excludes this type itself
  template <class U = T>
  requires(std::is_convertible_v<U, T> && !result_detail::is_expected<std::remove_cvref_t<U>> &&
           !result_detail::is_unexpected<std::remove_cvref_t<U>>) expected(U&& value)
      : base(std::in_place_index<0>, std::forward<U>(value)) {}
  // NOLINTEND(bugprone-forwarding-reference-overload)
  template <class G>
  requires std::constructible_from<E, G> expected(unexpected<G> e) : base(std::in_place_index<1>, std::move(e).error()) {}

  T& value() & { return base::success(this->state_); }
  const T& value() const& { return base::success(this->state_); }
  T&& value() && { return std::move(base::success(this->state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
};

// Success without a value, or an error. `return {};` is success.
template <class E>
class [[nodiscard]] expected<void, E> : public result_detail::either<result_detail::no_value, E> {
  using base = result_detail::either<result_detail::no_value, E>;

 public:
  using value_type = void;
  using error_type = E;

  expected() : base(std::in_place_index<0>) {}
  template <class G>
  requires std::constructible_from<E, G> expected(unexpected<G> e) : base(std::in_place_index<1>, std::move(e).error()) {}

  void value() const { base::success(this->state_); }
};

}  // namespace troupe
