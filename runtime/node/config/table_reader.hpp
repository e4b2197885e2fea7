// Reads one table of a document key by key into plain values. A key becomes known when it is read;
// finish() reports the remaining keys with the most similar known key. Mistakes are collected,
// never thrown, and an invalid value leaves its target unchanged.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ops/options.hpp"
#include "runtime/node/config/document.hpp"

namespace troupe {

using key_positions = std::map<std::string, source_position>;
// Finds the places in the file where a key of this or a similar name is valid, as dotted paths, for
// the hint about an unknown key. For the name of a table, "[train.sync]": the key that names its
// entry, "train.sync.mode", for the hint about a word in place of the table.
using key_finder = std::function<std::vector<std::string>(const std::string&)>;

class table_reader {
 public:
  // `name`: the table's name in messages, as in "[train.finish]" or "layer 'conv1'"; empty: the
  // file itself. `noted`: receives the positions of keys as `prefix` + key; may be null.
  table_reader(const document_table& table, std::string name, source_position at, diagnostics& errors,
               key_positions* noted = nullptr, std::string prefix = {}, const key_finder* elsewhere = nullptr)
      : table_(table),
        name_(std::move(name)),
        at_(std::move(at)),
        errors_(errors),
        noted_(noted),
        prefix_(std::move(prefix)),
        elsewhere_(elsewhere) {}

  const source_position& at() const { return at_; }
  source_position at(std::string_view key) const;  // position of the key, or of the table if the key is absent
  void error(std::string_view key, const std::string& message);
  void error_at(source_position where, const std::string& message);
  void rename(std::string name) { name_ = std::move(name); }

  // The value of a key; null if the table does not have it.
  const document_value* take(std::string_view key);
  bool is_word(std::string_view key, std::string_view word);  // true if the value is this string
  bool text(std::string_view key, std::string& into);
  bool name(std::string_view key, std::string& into);  // a text that check_name() accepts; else `into` is its as_name()
  bool texts(std::string_view key, std::vector<std::string>& into);  // a single string is a list of one; positions as key.0, key.1
  bool integer(std::string_view key, std::int64_t& into, std::int64_t min, std::int64_t max);
  bool real(std::string_view key, double& into, double min, double max);
  // A number, or a list of numbers (then `into` is unchanged).
  bool real_or_list(std::string_view key, double& into, std::vector<double>& list, double min, double max);
  bool flag(std::string_view key, bool& into);
  // One of `existing`; words of `planned` are reported as not implemented yet.
  bool word(std::string_view key, std::string& into, const std::vector<std::string>& existing,
            const std::vector<std::string>& planned = {});
  // A time with a unit ("200ms", "10min"), in seconds.
  bool time(std::string_view key, double& seconds);
  // A size with a unit ("512MiB") or a plain number of bytes.
  bool bytes(std::string_view key, std::int64_t& into);
  // A reader of a nested table; none if the key is absent or not a table.
  std::optional<table_reader> table(std::string_view key, std::string name);

  // Reads all other keys as options and checks them against `specs`.
  options rest(const option_specs& specs);
  // Disables the check for unknown keys, because the key that determines their meaning is invalid.
  void forgive() { forgiven_ = true; }
  void finish();

 private:
  bool known(std::string_view key) const;
  std::string hint_about(const std::string& unknown) const;
  void note(const std::string& key, const document_entry& e);
  bool number(std::string_view key, const document_value& v, double& into, double min, double max);
  void wrong(std::string_view key, const std::string& wanted, const document_value& v);
  std::optional<option_value> option(const std::string& key, const document_value& v);

  const document_table& table_;
  std::string name_;
  source_position at_;
  diagnostics& errors_;
  key_positions* noted_;
  std::string prefix_;
  const key_finder* elsewhere_;  // null: no hints about other tables; shared with nested readers
  std::vector<std::string> known_;
  bool forgiven_ = false;
};

// "10min" -> 600; none if there is no number or the unit is unknown.
std::optional<double> parse_time(std::string_view s);
std::optional<double> parse_bytes(std::string_view s);

}  // namespace troupe
