// The keys of blocks, and what messages say about them.
#include <set>
#include <string_view>
#include <utility>

#include "runtime/node/config/blocks.hpp"

namespace troupe {

const keys<block_declaration>& block_keys() {
  static const keys<block_declaration> k(
      "[[block]]",
      "A group of layers under a name, for `[[layer]]` tables with `block`. Texts in the layers may have values in braces: "
      "a parameter, `{name}`, the name of the layer that uses the block, `{i}`, the number of the repetition, or a computed "
      "number, `\"{4 * width}\"`; `{{` and `}}` are braces. In the job, the layer `conv` of the layer `stage2` is called "
      "`stage2_conv`; a name with `{name}` in it is the whole name. Inputs are layers of the block, \"in\" and \"in.1\", "
      "the first and the second input of the layer that uses the block, or other layers of the job.",
      {name_key<block_declaration>("name", "name of the block", &block_declaration::name).required(),
       other_key<block_declaration>(key_kind::table, "parameters", "the parameters that have a default, and the defaults"),
       texts_key<block_declaration>("required", "the parameters that have no default", &block_declaration::required)
           .otherwise("none"),
       text_key<block_declaration>("output", "the layer of the block that layers outside of it read", &block_declaration::output)
           .otherwise("the last layer of the block"),
       other_key<block_declaration>(key_kind::tables, "layer", "the layers: `[[block.layer]]`, with the keys of `[[layer]]`")
           .required()});
  return k;
}

const keys<block_use>& block_use_keys() {
  static const keys<block_use> k(
      "[[layer]] with a block",
      "The layers of the block take its place. The table also has the parameters of the block, and may have the keys of "
      "`[[layer]]` from `partition` to `gather`: they are set for each layer of the block that does not have them.",
      {name_key<block_use>("name", "begin of the names of the block's layers; as an input, the output of the block",
                           &block_use::name)
           .required(),
       text_key<block_use>("block", "name of the block", &block_use::block).required(),
       texts_key<block_use>("inputs", "what the block reads as \"in\", \"in.1\", ...", &block_use::inputs),
       whole_key<block_use>("repeat", 1, static_cast<double>(max_block_layers),
                            "the block is written so many times; each reads the one before as \"in\". With it, the layers of "
                            "`stage2` are called `stage2_1_conv`, `stage2_2_conv`, ... unless the name has `{i}` in it",
                            &block_use::repeat)
           .otherwise("once, without a number in the names"),
       whole_key<block_use>("first", 0, 1e6, "number of the first repetition", &block_use::first)});
  return k;
}

std::vector<key_table> block_tables() { return {block_keys().described(), block_use_keys().described()}; }

void name_uses(diagnostics& errors, const layer_origins& origins) {
  if (origins.empty()) return;
  std::set<std::pair<std::string, std::string>> seen;
  diagnostics left;
  for (auto& d : errors) {
    auto general = d.message, origin = std::string();
    for (auto at = d.message.find('\''); at != std::string::npos; at = d.message.find('\'', at + 1)) {
      const auto end = d.message.find('\'', at + 1);
      if (end == std::string::npos) break;
      const auto found = origins.find(d.message.substr(at + 1, end - at - 1));
      if (found == origins.end()) continue;
      const auto before = std::string_view(d.message).substr(0, at);
      if (origin.empty() && !before.ends_with("layer ") && !before.ends_with("layer name ")) continue;  // a hint
      if (origin.empty()) origin = found->second;
      if (const auto there = general.find("'" + found->first + "'"); there != std::string::npos)
        general.replace(there, found->first.size() + 2, "''");
    }
    if (!origin.empty() && !seen.emplace(d.at.to_string(), general).second) continue;
    if (!origin.empty() && d.message.find(origin) == std::string::npos) d.message += " (" + origin + ")";
    left.push_back(std::move(d));
  }
  errors = std::move(left);
}

}  // namespace troupe
