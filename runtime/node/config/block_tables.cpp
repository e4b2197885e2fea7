#include "runtime/node/config/block_tables.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "runtime/base/wording.hpp"
#include "runtime/node/config/job_keys.hpp"
#include "runtime/node/config/table_reader.hpp"

namespace troupe {
namespace {

bool all_tables_in(const document_array& list) {
  return std::all_of(list.begin(), list.end(), [](const document_value& v) { return v.table() != nullptr; });
}

void read_block(table_reader& r, const document_table& table, declared_blocks& into) {
  declared_block b;
  b.at = r.at();
  const auto& k = block_keys();
  if (!r.take("name")) {
    r.error("name", "it needs a name");
    return r.forgive();
  }
  if (!k.read(r, b.keys, "name")) return r.forgive();
  r.rename("block " + in_quotes(b.keys.name));
  k.read_each(r, b.keys, {"required", "output"});
  b.output_at = r.at("output");
  if (r.table("parameters", "[block.parameters]"))
    for (const auto& p : *find_entry(table, "parameters")->value.table()) b.defaults[p.key] = p.value;
  auto parameters = b.keys.required;
  for (const auto& [name, value] : b.defaults) parameters.push_back(name);
  static const std::vector<std::string> taken{"name", "block", "inputs", "repeat", "first", "i", "in"};
  for (const auto& name : parameters)
    if (std::count(taken.begin(), taken.end(), name) > 0) r.error("parameters", "a parameter cannot be called " + in_quotes(name));
  const auto* layers = r.take("layer");
  b.layers = layers ? layers->array() : nullptr;
  if (!b.layers || b.layers->empty() || !all_tables_in(*b.layers))
    r.error("layer", "it needs layers, written as [[block.layer]] tables");
  r.finish();
  const auto [first, fresh] = into.try_emplace(b.keys.name, b);
  if (!fresh) r.error("name", "duplicate block name; first used at " + first->second.at.to_string());
}

}  // namespace

declared_blocks read_blocks(const document_table& root, diagnostics& errors) {
  declared_blocks all;
  const auto* e = find_entry(root, "block");
  if (!e) return all;
  const auto* list = e->value.array();
  if (!list || !all_tables_in(*list)) {
    errors.push_back({e->at, "blocks are written as [[block]] tables"});
    return all;
  }
  for (const auto& v : *list) {
    table_reader r(*v.table(), "a block", v.at, errors);
    read_block(r, *v.table(), all);
  }
  return all;
}

bool is_key_of_all_layers(const std::string& key) {
  static const std::set<std::string> others{"name", "type", "inputs", "share", "algorithm", "loss_weight"};
  static const auto all = layer_keys().described().entries;
  return !others.contains(key) && std::any_of(all.begin(), all.end(), [&](const auto& k) { return k.name == key; });
}

const declared_block* check_use(const document_table& table, const source_position& at, const declared_blocks& blocks,
                                block_use& use, diagnostics& errors) {
  table_reader r(table, "a layer", at, errors);
  const auto& k = block_use_keys();
  if (!r.take("name"))
    r.error("name", "it needs a name");
  else if (k.read(r, use, "name"))
    r.rename("layer " + in_quotes(use.name));
  k.read_each(r, use, {"inputs", "repeat", "first"});
  if (!k.read(r, use, "block")) return nullptr;
  const auto found = blocks.find(use.block);
  if (found == blocks.end()) {
    std::vector<std::string> names;
    for (const auto& [name, b] : blocks) names.push_back(name);
    r.error("block", "unknown block " + in_quotes(use.block) + did_you_mean(use.block, names) +
                         (names.empty() ? "; the file has no [[block]]" : " (available: " + joined(names) + ")"));
    return nullptr;
  }
  const auto& b = found->second;
  for (const auto& [name, value] : b.defaults) r.take(name);
  for (const auto& name : b.keys.required)
    if (!r.take(name) && !b.defaults.contains(name))
      r.error("block", "block " + in_quotes(use.block) + " needs the parameter " + in_quotes(name));
  for (const auto& e : table)
    if (is_key_of_all_layers(e.key)) r.take(e.key);
  r.finish();
  return &b;
}

}  // namespace troupe
