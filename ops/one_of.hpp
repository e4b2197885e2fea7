// A std::variant for headers with many users. A file that copies, moves or destroys a std::variant
// compiles these operations for all its alternatives, which takes GCC seconds if there are thirty.
// Those of one_of are compiled in one file.
//
//   struct shape_kinds { using variant = std::variant<circle, square>; };
//   using shape = one_of<shape_kinds>;
//   extern template class one_of<shape_kinds>;  // header
//   template class one_of<shape_kinds>;         // one source file
//
// std::visit, std::get, std::get_if and std::holds_alternative accept it.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>
#include <variant>

namespace troupe {

template <class T, class Variant>
inline constexpr std::size_t index_of_alternative = std::variant_npos;
template <class T, class... Ts>
inline constexpr std::size_t index_of_alternative<T, std::variant<Ts...>> = [] {
  const bool same[] = {std::is_same_v<T, Ts>...};
  for (std::size_t i = 0; i < sizeof...(Ts); ++i)
    if (same[i]) return i;
  return std::variant_npos;
}();

template <class Kinds>
class one_of : public Kinds::variant {
  using base = typename Kinds::variant;
  template <class T>
  static constexpr std::size_t index_of = index_of_alternative<std::remove_cvref_t<T>, base>;

 public:
  one_of();
  one_of(const one_of&);
  one_of(one_of&&) noexcept;
  one_of& operator=(const one_of&);
  one_of& operator=(one_of&&) noexcept;
  ~one_of();

  // NOLINTBEGIN(bugprone-forwarding-reference-overload): the requirements exclude this type itself
  template <class T>
  requires(index_of<T> != std::variant_npos && std::is_rvalue_reference_v<T&&> && !std::is_const_v<T>) one_of(T&& t)
      : one_of(index_of<T>, std::addressof(t)) {}
  template <class T>
  requires(index_of<T> != std::variant_npos) one_of(const T& t) : one_of(T(t)) {}
  // The conversions of std::variant: `int` to std::int64_t, `const char*` to std::string.
  template <class T>
  requires(!std::derived_from<std::remove_cvref_t<T>, base> && index_of<T> == std::variant_npos && std::constructible_from<base, T>)
      one_of(T&& t)
      : base(std::forward<T>(t)) {}
  // NOLINTEND(bugprone-forwarding-reference-overload)

 private:
  one_of(std::size_t index, void* value);  // moves the value, which is the alternative of that index
};

// Not inline, so that `extern template` keeps them out of the files of users.
template <class Kinds>
one_of<Kinds>::one_of() = default;
template <class Kinds>
one_of<Kinds>::one_of(const one_of&) = default;
template <class Kinds>
one_of<Kinds>::one_of(one_of&&) noexcept = default;
template <class Kinds>
one_of<Kinds>& one_of<Kinds>::operator=(const one_of&) = default;
template <class Kinds>
one_of<Kinds>& one_of<Kinds>::operator=(one_of&&) noexcept = default;
template <class Kinds>
one_of<Kinds>::~one_of() = default;

template <class... Ts>
std::variant<Ts...> moved_alternative(std::size_t index, void* value, const std::variant<Ts...>*) {
  using result = std::variant<Ts...>;
  static constexpr result (*of[])(void*) = {
      [](void* v) { return result(std::in_place_type<Ts>, std::move(*static_cast<Ts*>(v))); }...};
  return of[index](value);
}
template <class Kinds>
one_of<Kinds>::one_of(std::size_t index, void* value) : base(moved_alternative(index, value, static_cast<const base*>(nullptr))) {}

}  // namespace troupe

template <class Kinds>
struct std::variant_size<troupe::one_of<Kinds>> : std::variant_size<typename Kinds::variant> {};
template <std::size_t I, class Kinds>
struct std::variant_alternative<I, troupe::one_of<Kinds>> : std::variant_alternative<I, typename Kinds::variant> {};
