#include "runtime/node/config/table_reader.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "runtime/base/printable.hpp"
#include "runtime/base/wording.hpp"

namespace troupe {
namespace {

constexpr int max_unknown_keys = 20;  // limit per table; a file of another kind has thousands

std::string number_text(double v) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, v);
  return std::string(buffer, end.ptr);
}

struct unit {
  const char* name;
  double factor;
};

std::optional<double> parse_with_unit(std::string_view s, const std::vector<unit>& units) {
  double number = 0;
  const auto [end, ec] = std::from_chars(s.data(), s.data() + s.size(), number);
  if (ec != std::errc() || !std::isfinite(number) || number < 0) return std::nullopt;
  auto word = s.substr(static_cast<std::size_t>(end - s.data()));
  while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
  for (const auto& u : units)
    if (word == u.name) return number * u.factor;
  return std::nullopt;
}

// True if two keys differ only in case, and in '-' for '_'.
bool same_letters(std::string_view a, std::string_view b) {
  const auto simple = [](char c) { return c == '-' ? '_' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return simple(x) == simple(y); });
}

template <class T>
bool all_hold(const document_array& a) {
  return std::all_of(a.begin(), a.end(), [](const document_value& v) { return std::holds_alternative<T>(v.value); });
}

template <class T>
std::vector<T> list_of(const document_array& a) {
  std::vector<T> out;
  for (const auto& v : a) out.push_back(std::get<T>(v.value));
  return out;
}

std::vector<double> reals_of(const document_array& a) {
  std::vector<double> out;
  for (const auto& v : a) {
    const auto* i = std::get_if<std::int64_t>(&v.value);
    out.push_back(i ? static_cast<double>(*i) : std::get<double>(v.value));
  }
  return out;
}

}  // namespace

std::optional<double> parse_time(std::string_view s) {
  return parse_with_unit(s, {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}});
}

std::optional<double> parse_bytes(std::string_view s) {
  constexpr double k = 1000, ki = 1024;
  return parse_with_unit(
      s, {{"B", 1}, {"kB", k}, {"MB", k * k}, {"GB", k * k * k}, {"KiB", ki}, {"MiB", ki * ki}, {"GiB", ki * ki * ki}});
}

source_position table_reader::at(std::string_view key) const {
  const auto* e = find_entry(table_, key);
  return e ? e->at : at_;
}

void table_reader::error(std::string_view key, const std::string& text) { error_at(at(key), text); }

void table_reader::error_at(source_position where, const std::string& text) {
  errors_.push_back({std::move(where), name_.empty() ? text : name_ + ": " + text});
}

bool table_reader::known(std::string_view key) const { return std::find(known_.begin(), known_.end(), key) != known_.end(); }

void table_reader::note(const std::string& key, const document_entry& e) {
  if (!noted_) return;
  (*noted_)[prefix_ + key] = e.at;
  if (const auto* list = e.value.array())
    for (std::size_t i = 0; i < list->size(); ++i) (*noted_)[prefix_ + key + "." + std::to_string(i)] = (*list)[i].at;
  if (const auto* t = e.value.table())
    for (const auto& inner : *t) note(key + "." + inner.key, inner);
}

const document_value* table_reader::take(std::string_view key) {
  if (!known(key)) known_.emplace_back(key);
  const auto* e = find_entry(table_, key);
  if (!e) return nullptr;
  note(e->key, *e);
  return &e->value;
}

void table_reader::wrong(std::string_view key, const std::string& wanted, const document_value& v) {
  error(key, in_quotes(key) + " must be " + wanted + ", not " + kind_of(v));
}

bool table_reader::is_word(std::string_view key, std::string_view word) {
  const auto* v = take(key);
  const auto* text = v ? std::get_if<std::string>(&v->value) : nullptr;
  return text && *text == word;
}

bool table_reader::text(std::string_view key, std::string& into) {
  const auto* v = take(key);
  if (!v) return false;
  const auto* s = std::get_if<std::string>(&v->value);
  if (!s) return wrong(key, "a string", *v), false;
  into = *s;
  return true;
}

bool table_reader::name(std::string_view key, std::string& into) {
  std::string s;
  if (!text(key, s)) return false;
  into = as_name(s);
  const auto fine = check_name(s);
  if (!fine) error(key, "bad " + std::string(key) + ": " + fine.error().text);
  return fine.has_value();
}

bool table_reader::texts(std::string_view key, std::vector<std::string>& into) {
  const auto* v = take(key);
  if (!v) return false;
  if (const auto* s = std::get_if<std::string>(&v->value)) {
    into = {*s};
    return true;
  }
  const auto* a = v->array();
  if (!a) return wrong(key, "a list of strings", *v), false;
  for (const auto& e : *a)
    if (!std::holds_alternative<std::string>(e.value)) {
      error_at(e.at, in_quotes(key) + " must be a list of strings, but contains " + kind_of(e));
      return false;
    }
  into = list_of<std::string>(*a);
  return true;
}

bool table_reader::integer(std::string_view key, std::int64_t& into, std::int64_t min, std::int64_t max) {
  const auto* v = take(key);
  if (!v) return false;
  const auto* i = std::get_if<std::int64_t>(&v->value);
  if (!i) return wrong(key, "an integer", *v), false;
  if (*i < min || *i > max) {
    error(key, in_quotes(key) + " must be between " + std::to_string(min) + " and " + std::to_string(max) + ", not " +
                   std::to_string(*i));
    return false;
  }
  into = *i;
  return true;
}

bool table_reader::number(std::string_view key, const document_value& v, double& into, double min, double max) {
  const auto* i = std::get_if<std::int64_t>(&v.value);
  const auto* d = std::get_if<double>(&v.value);
  if (!i && !d) return wrong(key, "a number", v), false;
  const double x = i ? static_cast<double>(*i) : *d;
  if (!(x >= min && x <= max)) {  // NaN as well
    const auto upper =
        max < 1e300 ? "between " + number_text(min) + " and " + number_text(max) : "finite and at least " + number_text(min);
    error(key, in_quotes(key) + " must be " + upper + ", not " + number_text(x));
    return false;
  }
  into = x;
  return true;
}

bool table_reader::real(std::string_view key, double& into, double min, double max) {
  const auto* v = take(key);
  return v && number(key, *v, into, min, max);
}

bool table_reader::real_or_list(std::string_view key, double& into, std::vector<double>& list, double min, double max) {
  const auto* v = take(key);
  if (!v) return false;
  const auto* a = v->array();
  if (!a) return number(key, *v, into, min, max);
  if (a->empty()) return error(key, in_quotes(key) + " is an empty list"), false;
  std::vector<double> numbers(a->size());
  for (std::size_t i = 0; i < a->size(); ++i)
    if (!number(key, (*a)[i], numbers[i], min, max)) return false;
  list = std::move(numbers);
  return true;
}

bool table_reader::flag(std::string_view key, bool& into) {
  const auto* v = take(key);
  if (!v) return false;
  const auto* b = std::get_if<bool>(&v->value);
  if (!b) return wrong(key, "true or false", *v), false;
  into = *b;
  return true;
}

bool table_reader::word(std::string_view key, std::string& into, const std::vector<std::string>& existing,
                        const std::vector<std::string>& planned) {
  std::string s;
  if (!text(key, s)) return false;
  if (std::find(existing.begin(), existing.end(), s) != existing.end()) {
    into = s;
    return true;
  }
  if (std::find(planned.begin(), planned.end(), s) != planned.end())
    error(key, std::string(key) + " = \"" + s + "\" is not implemented yet; available: " + joined(existing));
  else
    error(key, "unknown " + std::string(key) + " " + in_quotes(s) + did_you_mean(s, existing) + " (available: " + joined(existing) +
                   ")");
  return false;
}

bool table_reader::time(std::string_view key, double& seconds) {
  std::string s;
  if (!text(key, s)) return false;
  const auto t = parse_time(s);
  if (!t) {
    error(key, in_quotes(key) + " must be a time with a unit (ns, us, ms, s, min, h, d) as in \"10min\", not " + in_quotes(s));
    return false;
  }
  seconds = *t;
  return true;
}

bool table_reader::bytes(std::string_view key, std::int64_t& into) {
  const auto* v = take(key);
  if (!v) return false;
  std::optional<double> n;
  if (const auto* i = std::get_if<std::int64_t>(&v->value)) n = static_cast<double>(*i);
  if (const auto* s = std::get_if<std::string>(&v->value)) n = parse_bytes(*s);
  if (!n || *n < 0 || *n > 1e15) {
    error(key, in_quotes(key) + " must be a size as in \"512MiB\" or a number of bytes");
    return false;
  }
  into = static_cast<std::int64_t>(*n);
  return true;
}

std::optional<table_reader> table_reader::table(std::string_view key, std::string name) {
  const auto* v = take(key);
  if (!v) return std::nullopt;
  const auto* t = v->table();
  if (!t) {
    const bool word = elsewhere_ && std::holds_alternative<std::string>(v->value);
    const auto inside = word ? (*elsewhere_)(name) : std::vector<std::string>();
    error(key, in_quotes(key) + " must be a table, not " + kind_of(*v) +
                   (inside.empty() ? "" : "; did you mean " + in_quotes(inside.front()) + "?"));
    return std::nullopt;
  }
  return table_reader(*t, std::move(name), at(key), errors_, noted_, prefix_ + std::string(key) + ".", elsewhere_);
}

// Converts a value to an option; check_options later checks its kind against the declaration.
std::optional<option_value> table_reader::option(const std::string& key, const document_value& v) {
  if (const auto* b = std::get_if<bool>(&v.value)) return *b;
  if (const auto* i = std::get_if<std::int64_t>(&v.value)) return *i;
  if (const auto* d = std::get_if<double>(&v.value)) return *d;
  if (const auto* s = std::get_if<std::string>(&v.value)) return *s;
  if (const auto* t = v.table()) {
    auto inner = std::make_shared<options>();
    for (const auto& e : *t)
      if (auto o = option(key + "." + e.key, e.value)) inner->values[e.key] = std::move(*o);
    return inner;
  }
  if (const auto* a = v.array()) {
    if (all_hold<std::int64_t>(*a)) return list_of<std::int64_t>(*a);
    if (all_hold<std::string>(*a)) return list_of<std::string>(*a);
    const auto number = [](const document_value& e) {
      return std::holds_alternative<std::int64_t>(e.value) || std::holds_alternative<double>(e.value);
    };
    if (std::all_of(a->begin(), a->end(), number)) return reals_of(*a);
  }
  error_at(v.at, in_quotes(key) + " is " + kind_of(v) + ", which no option accepts in this form");
  return std::nullopt;
}

options table_reader::rest(const option_specs& specs) {
  options given;
  auto wanted = specs;
  const auto declared = [&](const std::string& key) {
    return std::find_if(wanted.begin(), wanted.end(), [&](const option_spec& s) { return s.name == key; });
  };
  for (const auto& e : table_) {
    if (known(e.key) || declared(e.key) == wanted.end()) continue;
    note(e.key, e);
    if (auto o = option(e.key, e.value))
      given.values[e.key] = std::move(*o);
    else
      wanted.erase(declared(e.key));
  }
  for (const auto& s : specs) known_.push_back(s.name);
  finish();
  // After each reported mistake the option is removed, and the others are checked again.
  for (std::size_t left = specs.size() + 1; left > 0; --left) {
    try {
      return check_options(given, wanted);
    } catch (const option_error& e) {
      error(e.key, e.what());
      given.values.erase(e.key);
      if (auto i = declared(e.key); i != wanted.end()) wanted.erase(i);
    }
  }
  return {};
}

// A similar key of this table; else the tables of the file that have a similar key; else the keys
// of this table.
std::string table_reader::hint_about(const std::string& unknown) const {
  for (const auto& k : known_)
    if (same_letters(k, unknown)) return "; did you mean " + in_quotes(k) + "?";
  if (auto near = did_you_mean(unknown, known_); !near.empty()) return near;
  std::string places;
  bool of_another = false;  // rule = "sgd" has no momentum, another rule has
  const auto here = (name_.empty() ? name_ : name_.substr(1, name_.size() - 2) + ".");  // "[train]" -> "train."
  for (const auto& path : elsewhere_ ? (*elsewhere_)(unknown) : std::vector<std::string>()) {
    const auto dot = path.rfind('.') + 1;
    if (path.substr(0, dot) != here)
      places +=
          (places.empty() ? "" : " or ") + in_quotes(path) + (dot == 0 ? " at the top of the file, before the first [table]" : "");
    else if (known(path.substr(dot)))  // the name that other programs use for a key of this table
      return "; did you mean " + in_quotes(path.substr(dot)) + "?";
    else
      of_another = of_another || path.substr(dot) == unknown;
  }
  if (!places.empty()) return "; did you mean " + places + "?";
  if (of_another)
    if (const auto entry = (*elsewhere_)(name_); !entry.empty())
      return "; another " + in_quotes(entry.front()) + " has this key (known here: " + joined(known_) + ")";
  return known_.empty() ? std::string() : "; known: " + joined(known_);
}

void table_reader::finish() {
  if (forgiven_) return;
  int unknown = 0;
  for (const auto& e : table_) {
    if (known(e.key)) continue;
    if (++unknown > max_unknown_keys) {
      error_at(e.at, "and more unknown keys");
      break;
    }
    error_at(e.at, "unknown key " + in_quotes(e.key) + hint_about(e.key));
  }
  forgiven_ = true;
}

}  // namespace troupe
