#include "ops/options.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "ops/real_text.hpp"

namespace troupe {

namespace {

const char* kind_name(option_kind k) {
  switch (k) {
    case option_kind::boolean: return "true or false";
    case option_kind::integer: return "an integer";
    case option_kind::real: return "a number";
    case option_kind::text: return "a text";
    case option_kind::integers: return "a list of integers";
    case option_kind::reals: return "a list of numbers";
    case option_kind::texts: return "a list of texts";
    case option_kind::table: return "a table";
  }
  return "?";
}
std::string kind_name(const option_spec& s) {
  return kind_name(s.kind) + std::string(s.by_axis ? " or a pair [height, width]" : "");
}

std::string number_text(double v) {
  std::string s = real_text(v);
  s.erase(s.find_last_not_of('0') + 1);
  if (!s.empty() && s.back() == '.') s.pop_back();
  return s;
}

std::string joined(const std::vector<std::string>& words) {
  std::string s;
  for (const auto& w : words) s += (s.empty() ? "" : ", ") + w;
  return s;
}

// Converts the value to the declared kind; an integer becomes a real where a real is declared.
// Empty if the kinds do not match.
std::optional<option_value> converted(const option_value& v, const option_spec& spec) {
  const auto kind = spec.kind;
  const bool number = kind == option_kind::integer || kind == option_kind::real || kind == option_kind::reals;
  if (number && !spec.choices.empty() && std::holds_alternative<std::string>(v)) return v;
  const auto index = static_cast<option_kind>(v.index());  // the variant's alternatives have the order of option_kind
  if (index == kind) return v;
  if (spec.by_axis && index == option_kind::integers) {
    const auto& pair = std::get<std::vector<std::int64_t>>(v);
    if (pair.size() != 2) return std::nullopt;
    return pair[0] == pair[1] ? option_value(pair[0]) : v;
  }
  if (kind == option_kind::real && index == option_kind::integer) return static_cast<double>(std::get<std::int64_t>(v));
  if (kind == option_kind::reals && index == option_kind::integers) {
    const auto& from = std::get<std::vector<std::int64_t>>(v);
    return std::vector<double>(from.begin(), from.end());
  }
  const bool empty_list = (index == option_kind::integers && std::get<std::vector<std::int64_t>>(v).empty()) ||
                          (index == option_kind::reals && std::get<std::vector<double>>(v).empty()) ||
                          (index == option_kind::texts && std::get<std::vector<std::string>>(v).empty());
  if (empty_list && kind == option_kind::integers) return std::vector<std::int64_t>{};
  if (empty_list && kind == option_kind::reals) return std::vector<double>{};
  if (empty_list && kind == option_kind::texts) return std::vector<std::string>{};
  return std::nullopt;
}

void check_range(const option_spec& s, double v) {
  if (v >= s.min && v <= s.max) return;
  std::string allowed;
  if (s.min > -1e300) allowed += " at least " + number_text(s.min);
  if (s.max < 1e300) allowed += (allowed.empty() ? " at most " : " and at most ") + number_text(s.max);
  if (allowed.empty()) allowed = " finite";
  throw option_error(s.name, "option '" + s.name + "' must be" + allowed + ", not " + number_text(v));
}

void check_choice(const option_spec& s, const std::string& word) {
  if (s.choices.empty() || std::find(s.choices.begin(), s.choices.end(), word) != s.choices.end()) return;
  const std::string near = nearest_word(word, s.choices);
  throw option_error(s.name, "option '" + s.name + "' must be one of " + joined(s.choices) + ", not '" + word + "'" +
                                 (near.empty() ? "" : "; did you mean '" + near + "'?"));
}

void check_value(const option_spec& s, const option_value& v) {
  switch (s.kind) {
    case option_kind::integer:
      if (const auto* word = std::get_if<std::string>(&v)) return check_choice(s, *word);
      if (const auto* pair = std::get_if<std::vector<std::int64_t>>(&v)) {
        for (const auto i : *pair) check_range(s, static_cast<double>(i));
        return;
      }
      check_range(s, static_cast<double>(std::get<std::int64_t>(v)));
      break;
    case option_kind::real:
      if (const auto* word = std::get_if<std::string>(&v)) return check_choice(s, *word);
      check_range(s, std::get<double>(v));
      break;
    case option_kind::text: check_choice(s, std::get<std::string>(v)); break;
    case option_kind::integers:
      for (auto i : std::get<std::vector<std::int64_t>>(v)) check_range(s, static_cast<double>(i));
      break;
    case option_kind::reals:
      if (const auto* word = std::get_if<std::string>(&v)) return check_choice(s, *word);
      for (auto d : std::get<std::vector<double>>(v)) check_range(s, d);
      break;
    case option_kind::texts:
      for (const auto& t : std::get<std::vector<std::string>>(v)) check_choice(s, t);
      break;
    case option_kind::boolean:
    case option_kind::table: break;
  }
}

void check_known(const options& given, const option_specs& specs) {
  for (const auto& [key, value] : given.values) {
    auto known = [&k = key](const option_spec& s) { return s.name == k; };
    if (std::any_of(specs.begin(), specs.end(), known)) continue;
    std::vector<std::string> names;
    for (const auto& s : specs) names.push_back(s.name);
    const std::string near = nearest_word(key, names);
    std::string message = "unknown option '" + key + "'";
    if (!near.empty())
      message += "; did you mean '" + near + "'?";
    else
      message += names.empty() ? "; this table has no options" : "; known: " + joined(names);
    throw option_error(key, message);
  }
}

}  // namespace

std::array<std::int64_t, 2> options::by_axis(std::string_view key) const {
  const auto i = values.find(key);
  if (i != values.end())
    if (const auto* pair = std::get_if<std::vector<std::int64_t>>(&i->second)) return {pair->at(0), pair->at(1)};
  return {integer(key), integer(key)};
}

options check_options(const options& given, const option_specs& specs) {
  check_known(given, specs);
  options checked;
  for (const auto& s : specs) {
    auto i = given.values.find(s.name);
    if (i == given.values.end()) {
      if (!s.fallback) throw option_error(s.name, "option '" + s.name + "' is missing; it must be " + kind_name(s));
      auto fallback = converted(*s.fallback, s);
      if (!fallback) throw option_error(s.name, "the default of option '" + s.name + "' is not " + kind_name(s));
      checked.values[s.name] = *fallback;
      continue;
    }
    auto value = converted(i->second, s);
    if (!value) throw option_error(s.name, "option '" + s.name + "' must be " + kind_name(s));
    check_value(s, *value);
    checked.values[s.name] = std::move(*value);
  }
  return checked;
}

// Independent of the locale. `used`: the characters of the number. Throws if there is no number, or
// one that no double holds.
static double real_of(std::string_view text, std::size_t& used) {
  const std::size_t sign = text.starts_with('+') && !text.starts_with("+-") ? 1 : 0;
  double v = 0;
  const auto r = std::from_chars(text.data() + sign, text.data() + text.size(), v);
  if (r.ec != std::errc{}) throw std::invalid_argument("not a double");
  used = static_cast<std::size_t>(r.ptr - text.data());
  return v;
}

options options_from_text(const std::vector<std::pair<std::string, std::string>>& given, const option_specs& specs) {
  options raw;
  for (const auto& [key, text] : given) {
    const auto spec = std::find_if(specs.begin(), specs.end(), [&k = key](const option_spec& s) { return s.name == k; });
    const auto kind = spec == specs.end() ? option_kind::text : spec->kind;
    std::size_t used = 0;
    try {
      if (kind == option_kind::integer && (text.empty() || text.find_first_not_of("+-0123456789") == std::string::npos))
        raw.values[key] = static_cast<std::int64_t>(std::stoll(text, &used));
      else if (kind == option_kind::real && (text.empty() || text.find_first_not_of("+-.eE0123456789") == std::string::npos))
        raw.values[key] = real_of(text, used);
      else if (kind == option_kind::boolean && (text == "true" || text == "false"))
        raw.values[key] = text == "true";
      else
        raw.values[key] = text;
    } catch (const std::exception&) {
      used = 0;
    }
    if ((kind == option_kind::integer || kind == option_kind::real) && !raw.values.contains(key))
      throw option_error(key, "option '" + key + "' must be " + kind_name(kind) + ", not '" + text + "'");
    if ((kind == option_kind::integer || kind == option_kind::real) && used != text.size() &&
        !std::holds_alternative<std::string>(raw.values[key]))
      throw option_error(key, "option '" + key + "' must be " + kind_name(kind) + ", not '" + text + "'");
  }
  return check_options(raw, specs);
}

std::vector<std::pair<std::string, std::string>> options_to_text(const options& o) {
  std::vector<std::pair<std::string, std::string>> list;
  for (const auto& [key, value] : o.values) {
    if (const auto* b = std::get_if<bool>(&value)) list.emplace_back(key, *b ? "true" : "false");
    if (const auto* i = std::get_if<std::int64_t>(&value)) list.emplace_back(key, std::to_string(*i));
    if (const auto* s = std::get_if<std::string>(&value)) list.emplace_back(key, *s);
    if (const auto* d = std::get_if<double>(&value)) {
      char text[32];
      const auto end = std::to_chars(text, text + sizeof text, *d, std::chars_format::general, 17).ptr;
      list.emplace_back(key, std::string(text, end));
    }
  }
  return list;
}

std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, (word.size() + 1) / 3) + 1;
  for (const auto& c : candidates) {
    // The edit distance is at least the difference of the lengths.
    if (std::max(word.size(), c.size()) - std::min(word.size(), c.size()) >= best_distance) continue;
    // Optimal string alignment distance: insertions, deletions, substitutions, transpositions of
    // neighbours.
    std::vector<std::vector<std::size_t>> d(word.size() + 1, std::vector<std::size_t>(c.size() + 1));
    for (std::size_t i = 0; i <= word.size(); ++i) {
      for (std::size_t j = 0; j <= c.size(); ++j) {
        if (i == 0 || j == 0) {
          d[i][j] = i + j;
          continue;
        }
        const bool same = word[i - 1] == c[j - 1];
        d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (same ? 0 : 1)});
        if (i > 1 && j > 1 && word[i - 1] == c[j - 2] && word[i - 2] == c[j - 1]) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
    if (d[word.size()][c.size()] < best_distance) {
      best_distance = d[word.size()][c.size()];
      best = c;
    }
  }
  return best;
}

template class one_of<option_kinds>;

}  // namespace troupe
