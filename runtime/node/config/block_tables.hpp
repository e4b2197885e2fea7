// [[block]] tables and the [[layer]] tables that use them, read but not yet written out
// (blocks.hpp).
#pragma once

#include <map>
#include <string>

#include "runtime/node/config/block_text.hpp"
#include "runtime/node/config/blocks.hpp"

namespace troupe {

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
