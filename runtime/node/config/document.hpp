// A TOML file as a plain tree with positions: what job and cluster files are read from.
// toml_document.cpp alone knows TOML++, so the readers compile fast and cannot tell a line of the
// file from a `--set key=value` of the command line. Errors: values (diagnostics), never
// exceptions; any text may be given, hostile ones too.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/base/diagnostic.hpp"

namespace troupe {

constexpr std::size_t max_document_bytes = std::size_t{1} << 20;
constexpr std::size_t max_overrides = 10'000;  // of one job

struct document_entry;
struct document_value;
using document_array = std::vector<document_value>;
using document_table = std::vector<document_entry>;  // in the order of the file
struct document_other {};                            // dates and times: no key wants one

struct document_value {
  std::variant<bool, std::int64_t, double, std::string, document_array, document_table, document_other> value;
  source_position at;

  const document_table* table() const { return std::get_if<document_table>(&value); }
  const document_array* array() const { return std::get_if<document_array>(&value); }
};

struct document_entry {
  std::string key;
  source_position at;  // of the key
  document_value value;
};

const document_entry* find_entry(const document_table& t, std::string_view key);

// "a number", "a table", ... for messages.
const char* kind_of(const document_value& v);

// The bytes of a configuration file, for every command that reads one. Refuses what cannot be one:
// a missing file, anything but a regular file (a FIFO is not waited for), more than
// max_document_bytes.
std::variant<std::string, diagnostics> read_text(const std::string& path);

// The text as a tree. Refuses NUL bytes, bad UTF-8 and absurd nesting before the parser sees them.
std::variant<document_table, diagnostics> parse_document(const std::string& text, const std::string& file);

// Applies `key.path=value` (value in TOML, a bare word is a string). Elements of [[layer]] and
// [[node]] are reached by name: `layer.conv1.outputs=10`. Positions of what is set name the
// override.
void apply_override(document_table& root, const std::string& override_text, diagnostics& errors);

// The text as a tree with all of them applied.
std::variant<document_table, diagnostics> parse_document(const std::string& text, const std::string& file,
                                                         const std::vector<std::string>& overrides);

}  // namespace troupe
