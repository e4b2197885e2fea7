// Options of layers, rules, fillers, sources and modes: what a table of a job file holds beyond the
// keys of the house. A type declares its options (name, kind, default, range, one line of
// documentation); the job file's parser checks names and kinds against the declaration, so that a
// mistake names file, line and column before anything starts.
#pragma once

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

namespace troupe {

// A user's mistake in a value. `key` names the option (may be empty); whoever knows the file adds
// the position.
struct option_error : std::runtime_error {
  option_error(std::string key_, const std::string& text) : std::runtime_error(text), key(std::move(key_)) {}
  std::string key;
};

enum class option_kind : std::uint8_t { boolean, integer, real, text, integers, reals, texts, table };

struct options;
using option_value = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<double>,
                                  std::vector<std::string>, std::shared_ptr<options>>;

struct option_spec {
  std::string name;
  option_kind kind = option_kind::integer;
  std::optional<option_value> fallback;  // none: the option is required
  std::string doc;
  double min = -1e300;  // inclusive bounds for integer, real and their lists
  double max = 1e300;
  std::vector<std::string>
      choices;  // for text: the allowed words; empty = any. For integer and real: words allowed beside numbers ("inf")
};
using option_specs = std::vector<option_spec>;

// Checked values. get<T>() asserts presence: a checked table holds every declared option, defaults
// filled in.
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
  double real(std::string_view key) const { return get<double>(key); }
  bool flag(std::string_view key) const { return get<bool>(key); }
  const std::string& text(std::string_view key) const { return get<std::string>(key); }
  const options& table(std::string_view key) const { return *get<std::shared_ptr<options>>(key); }
};

// Fills defaults, converts integer to real where a real is declared, checks kinds, bounds and
// choices. Throws option_error naming the key: unknown (with the nearest known name), missing,
// wrong kind, out of range.
options check_options(const options& given, const option_specs& specs);

// Values as a person types them (`mode ssp staleness=3`), read as their declarations say; then
// checked as above.
options options_from_text(const std::vector<std::pair<std::string, std::string>>& given, const option_specs& specs);

// The other way: numbers, words and flags; options of other kinds are left out (they keep their
// defaults).
std::vector<std::pair<std::string, std::string>> options_to_text(const options& o);

// The candidate nearest to `word` by edit distance, or empty when none is near ("did you mean").
std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace troupe
