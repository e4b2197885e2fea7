// [[block]] tables and the [[layer]] tables that use them, read but not yet written out
// (blocks.hpp).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "runtime/base/result.hpp"
#include "runtime/node/config/blocks.hpp"
#include "runtime/node/config/document.hpp"

namespace troupe {

// The texts of a block's layers, in which braces stand for values: "{width}", "{4 * width}",
// "s{i}_conv". Values are integers, numbers, strings or anything else that TOML has; sums,
// differences, products and exact quotients of numbers may be computed. "{{" and "}}" are braces.
using block_values = std::map<std::string, document_value, std::less<>>;

constexpr std::size_t max_block_text = 4096;  // bytes of a text with values in it

// True if an expression of `text` names `word`.
bool mentions(std::string_view text, std::string_view word);

// `text` with the values in place. A text that is one expression becomes a value of its kind:
// "{width}" the integer 64. The position of the result is empty.
expected<document_value> with_values(const std::string& text, const block_values& values);

// Approximate memory of a value.
std::size_t bytes_of(const document_value& v);

// Replaces each text in `v`, also in lists and tables; positions stay those of the texts. Mistakes
// are appended to `errors`. `room`: the bytes that values may still take; they are subtracted, and
// nothing is replaced once there are none.
void put_values(document_value& v, const block_values& values, std::size_t& room, diagnostics& errors);

struct declared_block {
  block_declaration keys;
  block_values defaults;
  const document_array* layers = nullptr;  // of the document; at least one, all tables
  source_position at, output_at;
};
using declared_blocks = std::map<std::string, declared_block, std::less<>>;

// `root` must outlive the result.
declared_blocks read_blocks(const document_table& root, diagnostics& errors);

// The keys that a use may set for all layers of its block.
bool is_key_of_all_layers(const std::string& key);

// Reads the keys of a use that decide what it becomes, and checks the names of the others. Null:
// there is no such block.
const declared_block* check_use(const document_table& table, const source_position& at, const declared_blocks& blocks,
                                block_use& use, diagnostics& errors);

}  // namespace troupe
