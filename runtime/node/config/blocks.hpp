// Blocks of a job file: a named group of layers that [[layer]] tables use, several times if they
// like. Every use is replaced by the layers that it stands for, so that the readers of the keys of
// a layer see a file in which all layers are written out.
//   [[block]] name, parameters = {...}, required = [...], output, and [[block.layer]] tables
//   [[layer]] name, block, inputs, repeat, first, and the parameters
// Layers of the use "stage2" are called "stage2_conv1", with `repeat` "stage2_1_conv1", ...; a name
// with {name} in it is the whole name. Another layer reads the last layer of a use (or `output`)
// under the use's name. Within a block, "in" and "in.1" are the inputs of the use.
// Errors: diagnostics. The number of layers, the depth of blocks in blocks and the memory are
// bounded: the file may be hostile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/node/config/document.hpp"
#include "runtime/node/config/keys.hpp"

namespace troupe {

constexpr std::size_t max_block_layers = 10'000;  // that blocks of a file may become
constexpr int max_block_depth = 8;

// The keys of the tables of blocks, as the reader knows them.
struct block_declaration {
  std::string name, output;
  std::vector<std::string> required;
};
struct block_use {
  std::string name, block;
  std::vector<std::string> inputs;
  std::int64_t repeat = 1, first = 1;
};
const keys<block_declaration>& block_keys();
const keys<block_use>& block_use_keys();
std::vector<key_table> block_tables();  // for the reference

// By the name of a layer: the block and the use that it is of, for messages.
using layer_origins = std::map<std::string, std::string>;

// Replaces the uses in `root` by layers and removes `block`. `file`: for positions.
layer_origins write_out_blocks(document_table& root, const std::string& file, diagnostics& errors);

// Adds the origin to messages about layers of blocks. Of the messages that one line of a block
// causes in all its uses, the first remains.
void name_uses(diagnostics& errors, const layer_origins& origins);

}  // namespace troupe
