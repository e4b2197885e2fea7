// Shorthands for declaring options. An option without a default is required.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/options.hpp"

namespace troupe {

inline option_spec option_of(std::string name, option_kind kind, std::optional<option_value> fallback, std::string doc) {
  option_spec s;
  s.name = std::move(name);
  s.kind = kind;
  s.fallback = std::move(fallback);
  s.doc = std::move(doc);
  return s;
}
inline option_spec bounded(option_spec s, double min, double max = 1e300) {
  s.min = min;
  s.max = max;
  return s;
}
inline option_spec required_integer(std::string name, std::string doc, double min = 1) {
  return bounded(option_of(std::move(name), option_kind::integer, std::nullopt, std::move(doc)), min, 1e9);
}
inline option_spec integer_option(std::string name, std::int64_t fallback, std::string doc, double min = 0) {
  return bounded(option_of(std::move(name), option_kind::integer, fallback, std::move(doc)), min, 1e9);
}
// A number, or a pair [height, width]; options::by_axis reads it.
inline option_spec by_axis_option(std::string name, std::int64_t fallback, std::string doc, double min = 0) {
  auto s = integer_option(std::move(name), fallback, std::move(doc), min);
  s.by_axis = true;
  return s;
}
inline option_spec real_option(std::string name, double fallback, std::string doc, double min = -1e300, double max = 1e300) {
  return bounded(option_of(std::move(name), option_kind::real, fallback, std::move(doc)), min, max);
}
inline option_spec flag_option(std::string name, bool fallback, std::string doc) {
  return option_of(std::move(name), option_kind::boolean, fallback, std::move(doc));
}
// A count or "inf"; count_of() reads it.
inline option_spec count_or_inf_option(std::string name, std::int64_t fallback, std::string doc, double min = 0) {
  auto s = integer_option(std::move(name), fallback, std::move(doc), min);
  s.choices = {"inf"};
  return s;
}
inline std::uint64_t count_of(const options& o, std::string_view key, std::uint64_t infinite) {
  const auto& v = o.values.find(key)->second;
  return std::holds_alternative<std::string>(v) ? infinite : static_cast<std::uint64_t>(std::get<std::int64_t>(v));
}
// The first word is the default.
inline option_spec choice_option(std::string name, std::vector<std::string> words, std::string doc) {
  option_spec s = option_of(std::move(name), option_kind::text, words.front(), std::move(doc));
  s.choices = std::move(words);
  return s;
}
inline option_spec table_option(std::string name, std::string doc) {
  return option_of(std::move(name), option_kind::table, std::make_shared<options>(), std::move(doc));
}

}  // namespace troupe
