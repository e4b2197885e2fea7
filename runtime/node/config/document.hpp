// A TOML file as a plain tree with positions, from which job and cluster files are read. Only
// toml_document.cpp depends on TOML++, so the readers compile fast, and they treat lines of the
// file and `--set key=value` of the command line alike. Errors: values (diagnostics), never
// exceptions; the text may be arbitrary and hostile.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/base/diagnostic.hpp"
#include "runtime/base/result.hpp"

namespace troupe {

constexpr std::size_t max_document_bytes = std::size_t{1} << 20;
constexpr std::size_t max_overrides = 10'000;  // per job

struct document_entry;
struct document_value;
using document_array = std::vector<document_value>;
using document_table = std::vector<document_entry>;  // in the order of the file
struct document_other {};                            // dates and times, which no key accepts

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

// The text of a configuration file, for every command that reads one. Refuses a missing file,
// anything except a regular file (opening a FIFO does not block), and more than max_document_bytes.
expected<std::string, diagnostics> read_text(const std::string& path);

// Parses the text. Refuses NUL bytes, invalid UTF-8 and excessive nesting before TOML++ parses it.
expected<document_table, diagnostics> parse_document(const std::string& text, const std::string& file);

// Applies `key.path=value` (the value is TOML; a bare word is a string). Elements of [[layer]] and
// [[node]] are selected by name: `layer.conv1.outputs=10`. Values that are set have the override as
// their position.
void apply_override(document_table& root, const std::string& override_text, diagnostics& errors);

// Parses the text and applies the overrides.
expected<document_table, diagnostics> parse_document(const std::string& text, const std::string& file,
                                                     const std::vector<std::string>& overrides);

}  // namespace troupe
