#include "runtime/node/config/key_order.hpp"

#include <algorithm>
#include <map>
#include <memory>

#include "runtime/node/config/blocks.hpp"
#include "runtime/node/config/cluster_keys.hpp"
#include "runtime/node/config/entry_choices.hpp"
#include "runtime/node/config/job_keys.hpp"

namespace troupe {
namespace {

using names = std::vector<std::string>;

// "[train.dynamics]" as "train.dynamics"; "" for the keys outside of tables.
std::string path_of_table(const std::string& name) {
  const auto from = name.find_first_not_of('[');
  return name[0] == '[' ? name.substr(from, name.find(']') - from) : std::string();
}

struct known_order {
  std::map<std::string, table_choice> choices;
  std::map<std::string, std::vector<key_descriptor>> keys;

  names of(std::string path, const std::vector<key_text>& present) const {
    if (path == "block.layer") path = "layer";
    const auto at = keys.find(path);
    if (at == keys.end()) return {};
    names first, last;
    for (const auto& k : at->second) {
      const bool head = (k.required && k.kind != key_kind::table && k.kind != key_kind::tables) || k.kind == key_kind::entry;
      (head ? first : last).push_back(k.name);
    }
    if (path == "layer") {
      first = {"name", "block", "type", "inputs", "repeat", "first"};
      std::erase(last, "inputs");
    }
    if (const auto choice = choices.find(path); choice != choices.end())
      for (const auto& o : options_of(choice->second, present)) first.push_back(o.name);
    first.insert(first.end(), last.begin(), last.end());
    return first;
  }

 private:
  static option_specs options_of(const table_choice& c, const std::vector<key_text>& present) {
    for (const auto& [key, value] : present) {
      if (key != c.key || value.size() < 2) continue;
      const auto options = c.options.find(value.substr(1, value.size() - 2));  // without the quotes
      return options == c.options.end() ? option_specs() : options->second;
    }
    const auto own = c.options.find("");
    return own == c.options.end() ? option_specs() : own->second;
  }
};

layout_order order_by(const std::vector<key_table>& tables, std::map<std::string, table_choice> choices) {
  layout_order order;
  auto known = std::make_shared<known_order>();
  known->choices = std::move(choices);
  for (const auto& t : tables) known->keys.try_emplace(path_of_table(t.name), t.entries);
  // Tables as the keys of the file name them, each with its own tables.
  for (const auto& k : tables.front().entries)
    for (const auto& t : tables)
      if (const auto path = path_of_table(t.name); path == k.name || path.starts_with(k.name + "."))
        if (std::count(order.tables.begin(), order.tables.end(), path) == 0) order.tables.push_back(path);
  order.keys = [known](const std::string& path, const std::vector<key_text>& present) { return known->of(path, present); };
  return order;
}

}  // namespace

layout_order order_of_job_keys(const tables& all) {
  auto list = job_tables();
  for (auto& t : block_tables()) list.push_back(std::move(t));
  return order_by(list, choices_of(all));
}

layout_order order_of_cluster_keys() { return order_by(cluster_tables(), {}); }

}  // namespace troupe
