// The keys of a configuration file's tables, one entry per key: name, kind, range or words,
// default, one line of documentation. The readers of job and cluster files use these entries, and
// `troupe reference` prints them (reference.hpp), so the reference always matches the reader. An
// entry is bound to a member of the struct that the table becomes if the key is a plain value; its
// default is then that of the member. Entries of other keys (tables, names of registry entries,
// values that are stored elsewhere) are read one by one, by name.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/node/config/table_reader.hpp"

namespace troupe {

enum class key_kind : std::uint8_t {
  text,
  name,  // text that check_name() accepts
  texts,
  whole,
  real,
  reals,
  flag,
  word,
  time,
  steps_or_time,
  bytes,
  table,
  tables,
  entry
};

struct key_descriptor {
  std::string name;
  key_kind kind = key_kind::text;
  double min = 0, max = 0;  // of whole and real
  std::vector<std::string> words, planned;
  std::string fallback;  // the default as it would be written; empty: none
  std::string doc;
  bool required = false;
};

constexpr double no_upper = 1e300;
constexpr double unlimited = 1e299, beyond_integers = 9e18;  // references and schemas do not show bounds from these on
constexpr double least_speed = 1e-9;                         // of a device, in TFLOP/s

bool read_key(table_reader& r, const key_descriptor& k, std::string& into);  // text, name, word
bool read_key(table_reader& r, const key_descriptor& k, std::vector<std::string>& into);
bool read_key(table_reader& r, const key_descriptor& k, std::int64_t& into);  // whole, bytes
bool read_key(table_reader& r, const key_descriptor& k, double& into);        // real, time
bool read_key(table_reader& r, const key_descriptor& k, bool& into);
bool read_key(table_reader& r, const key_descriptor& k, double& into, std::vector<double>& list);  // reals

// A value as it would be written in the file, for the reference.
std::string written(const std::string& v);
std::string written(const std::vector<std::string>& v);
std::string written(std::int64_t v);
std::string written(double v);
std::string written(bool v);

// A table of keys for the reference.
struct key_table {
  std::string name, doc;
  std::vector<key_descriptor> entries;
};

template <class S>
struct bound_key {
  using member =
      std::variant<std::monostate, std::string S::*, std::vector<std::string> S::*, std::int64_t S::*, std::uint64_t S::*,
                   double S::*, bool S::*, std::optional<std::int64_t> S::*, std::optional<double> S::*>;
  key_descriptor entry;
  member to = {};

  // Sets a default that differs from the member's value, or is described in words.
  bound_key otherwise(std::string fallback) && {
    entry.fallback = std::move(fallback);
    return std::move(*this);
  }
  bound_key required() && {
    entry.required = true;
    return std::move(*this);
  }
};

template <class S>
class keys {
 public:
  keys(std::string name, std::string doc, std::vector<bound_key<S>> entries)
      : name_(std::move(name)), doc_(std::move(doc)), rows_(std::move(entries)) {}

  const std::string& name() const { return name_; }
  const key_descriptor& entry(std::string_view key) const { return at(key).entry; }

  // Reads keys that are bound to members. Returns true if `key` is present and valid.
  bool read(table_reader& r, S& into, std::string_view key) const { return read_bound(r, into, at(key)); }
  void read_each(table_reader& r, S& into, std::initializer_list<std::string_view> list) const {
    for (const auto key : list) read(r, into, key);
  }
  void read_all(table_reader& r, S& into) const {
    for (const auto& k : rows_) read_bound(r, into, k);
  }
  // Reads a key whose value is stored elsewhere.
  template <class... Into>
  bool read_into(table_reader& r, std::string_view key, Into&... into) const {
    return read_key(r, at(key).entry, into...);
  }

  // Calls f(descriptor, value) for each key in order, with the value of its member of `from`, or
  // std::monostate for keys without one.
  template <class F>
  void each(const S& from, const F& f) const {
    for (const auto& k : rows_)
      std::visit(
          [&](auto to) {
            if constexpr (std::is_same_v<decltype(to), std::monostate>)
              f(k.entry, to);
            else
              f(k.entry, from.*to);
          },
          k.to);
  }

  key_table described() const {
    key_table t{name_, doc_, {}};
    for (const auto& k : rows_) {
      t.entries.push_back(k.entry);
      if (k.entry.fallback.empty() && !k.entry.required) t.entries.back().fallback = default_of(k.to);
    }
    return t;
  }

 private:
  const bound_key<S>& at(std::string_view key) const {
    const auto i = std::find_if(rows_.begin(), rows_.end(), [&](const auto& k) { return k.entry.name == key; });
    if (i == rows_.end()) throw std::logic_error(name_ + " has no entry for " + std::string(key));
    return *i;
  }

  static bool read_bound(table_reader& r, S& into, const bound_key<S>& k) {
    return std::visit(
        [&](auto to) {
          using to_type = decltype(to);
          if constexpr (std::is_same_v<to_type, std::monostate>) {
            return false;
          } else if constexpr (std::is_same_v<to_type, std::uint64_t S::*>) {
            std::int64_t v = 0;
            const bool good = read_key(r, k.entry, v);
            if (good) into.*to = static_cast<std::uint64_t>(v);
            return good;
          } else if constexpr (std::is_same_v<to_type, std::optional<std::int64_t> S::*>) {
            std::int64_t v = 0;
            const bool good = read_key(r, k.entry, v);
            if (good) into.*to = v;
            return good;
          } else if constexpr (std::is_same_v<to_type, std::optional<double> S::*>) {
            double v = 0;
            const bool good = read_key(r, k.entry, v);
            if (good) into.*to = v;
            return good;
          } else {
            return read_key(r, k.entry, into.*to);
          }
        },
        k.to);
  }

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // gcc 12 warns about parts of a fresh job_spec in unity builds
  static std::string default_of(const typename bound_key<S>::member& m) {
    const S fresh{};
    return std::visit(
        [&](auto to) -> std::string {
          using to_type = decltype(to);
          if constexpr (std::is_same_v<to_type, std::monostate>)
            return {};
          else if constexpr (std::is_same_v<to_type, std::uint64_t S::*>)
            return written(static_cast<std::int64_t>(fresh.*to));
          else if constexpr (std::is_same_v<to_type, std::optional<std::int64_t> S::*> ||
                             std::is_same_v<to_type, std::optional<double> S::*>)
            return fresh.*to ? written(*(fresh.*to)) : std::string();
          else
            return written(fresh.*to);
        },
        m);
  }
#pragma GCC diagnostic pop

  std::string name_, doc_;
  std::vector<bound_key<S>> rows_;
};

// Shorthands for entries. The member comes last: `{}` if the value is stored elsewhere.
template <class S>
bound_key<S> text_key(std::string name, std::string doc, typename bound_key<S>::member to = {}) {
  return {{std::move(name), key_kind::text, 0, 0, {}, {}, {}, std::move(doc)}, to};
}
template <class S>
bound_key<S> name_key(std::string name, std::string doc, typename bound_key<S>::member to = {}) {
  return {{std::move(name), key_kind::name, 0, 0, {}, {}, {}, std::move(doc)}, to};
}
template <class S>
bound_key<S> texts_key(std::string name, std::string doc, typename bound_key<S>::member to = {}) {
  return {{std::move(name), key_kind::texts, 0, 0, {}, {}, {}, std::move(doc)}, to};
}
template <class S>
bound_key<S> whole_key(std::string name, double min, double max, std::string doc, typename bound_key<S>::member to = {}) {
  return {{std::move(name), key_kind::whole, min, max, {}, {}, {}, std::move(doc)}, to};
}
template <class S>
bound_key<S> real_key(std::string name, double min, double max, std::string doc, typename bound_key<S>::member to = {}) {
  return {{std::move(name), key_kind::real, min, max, {}, {}, {}, std::move(doc)}, to};
}
template <class S>
bound_key<S> reals_key(std::string name, double min, double max, std::string doc) {
  return {{std::move(name), key_kind::reals, min, max, {}, {}, {}, std::move(doc)}, {}};
}
template <class S>
bound_key<S> flag_key(std::string name, std::string doc, typename bound_key<S>::member to = {}) {
  return {{std::move(name), key_kind::flag, 0, 0, {}, {}, {}, std::move(doc)}, to};
}
template <class S>
bound_key<S> word_key(std::string name, std::vector<std::string> words, std::string doc, typename bound_key<S>::member to = {},
                      std::vector<std::string> planned = {}) {
  return {{std::move(name), key_kind::word, 0, 0, std::move(words), std::move(planned), {}, std::move(doc)}, to};
}
// Keys of other kinds, which are read individually.
template <class S>
bound_key<S> other_key(key_kind kind, std::string name, std::string doc, typename bound_key<S>::member to = {}) {
  return {{std::move(name), kind, 0, 0, {}, {}, {}, std::move(doc)}, to};
}

}  // namespace troupe
