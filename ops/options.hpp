// Options of layers, rules, fillers, sources and modes: the keys of a job file's table beyond the
// common ones. A type declares its options (name, kind, default, range, documentation). The job
// file's parser checks names and values against the declarations, so that an error names file, line
// and column before the job starts.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ops/one_of.hpp"

namespace troupe {

// A user error in an option. `key` names the option and may be empty. The caller that knows the
// file adds the position.
struct option_error : std::runtime_error {
  option_error(std::string key_, const std::string& text) : std::runtime_error(text), key(std::move(key_)) {}
  std::string key;
};

enum class option_kind : std::uint8_t { boolean, integer, real, text, integers, reals, texts, table };

struct options;
struct option_kinds {
  using variant = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<double>,
                               std::vector<std::string>, std::shared_ptr<options>>;
};
using option_value = one_of<option_kinds>;
extern template class one_of<option_kinds>;

struct option_spec {
  std::string name;
  option_kind kind = option_kind::integer;
  std::optional<option_value> fallback;  // empty: the option is required
  std::string doc;
  double min = -1e300;  // inclusive bounds for integer, real and their lists
  double max = 1e300;
  std::vector<std::string>
      choices;           // text: allowed words, empty = any; integer, real and reals: words allowed instead of numbers ("inf")
  bool by_axis = false;  // integer: a pair [height, width] is allowed, too; a pair of equal numbers becomes one number
};
using option_specs = std::vector<option_spec>;

// Checked values, with defaults filled in: every declared option is present. get<T>() throws
// option_error if `key` is missing.
struct options {
  std::map<std::string, option_value, std::less<>> values;

  bool has(std::string_view key) const { return values.find(key) != values.end(); }
  template <class T>
  const T& get(std::string_view key) const {
    auto i = values.find(key);
    if (i == values.end()) throw option_error(std::string(key), "option '" + std::string(key) + "' is missing");
    return std::get<T>(i->second);
  }
  std::int64_t integer(std::string_view key) const { return get<std::int64_t>(key); }
  // Height and width of an option by axis.
  std::array<std::int64_t, 2> by_axis(std::string_view key) const;
  double real(std::string_view key) const { return get<double>(key); }
  bool flag(std::string_view key) const { return get<bool>(key); }
  const std::string& text(std::string_view key) const { return get<std::string>(key); }
  const options& table(std::string_view key) const { return *get<std::shared_ptr<options>>(key); }
};

// Fills in defaults, converts integers to real where a real is declared, and checks kinds, bounds
// and choices. Throws option_error with the key: unknown (with the nearest known name), missing,
// wrong kind, or out of range.
options check_options(const options& given, const option_specs& specs);

// Parses values as typed by a user (`mode ssp staleness=3`) according to their declarations, and
// checks them as above.
options options_from_text(const std::vector<std::pair<std::string, std::string>>& given, const option_specs& specs);

// The inverse: values of numbers, texts and flags. Options of other kinds are omitted and keep
// their defaults.
std::vector<std::pair<std::string, std::string>> options_to_text(const options& o);

// Returns the candidate nearest to `word` by edit distance, for "did you mean". Empty if none is
// near.
std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace troupe
