#include "runtime/node/config/flat_keys.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/base/number_text.hpp"

namespace troupe {
namespace {

std::string scalar_text(const document_value& v) {
  if (const auto* s = std::get_if<std::string>(&v.value)) return nlohmann::json(*s).dump();
  if (const auto* n = std::get_if<std::int64_t>(&v.value)) return number_text(*n);
  if (const auto* d = std::get_if<double>(&v.value)) return number_text(*d);
  if (const auto* b = std::get_if<bool>(&v.value)) return *b ? "true" : "false";
  return kind_of(v);
}

std::string list_text(const document_array& list) {
  std::string text;
  for (const auto& v : list) text += (text.empty() ? "" : ", ") + (v.array() != nullptr ? list_text(*v.array()) : scalar_text(v));
  return "[" + text + "]";
}

void flatten(const document_table& t, const std::string& prefix, flat_keys& into);

// Elements of a list of tables are called by their name, as in --set; without one by their place.
void flatten_list(const document_array& list, const std::string& path, flat_keys& into) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto* name = find_entry(*list[i].table(), "name");
    const auto* text = name == nullptr ? nullptr : std::get_if<std::string>(&name->value.value);
    flatten(*list[i].table(), path + "." + (text == nullptr ? std::to_string(i + 1) : *text) + ".", into);
  }
}

void flatten(const document_table& t, const std::string& prefix, flat_keys& into) {
  for (const auto& entry : t) {
    const auto path = prefix + entry.key;
    const auto* list = entry.value.array();
    if (const auto* table = entry.value.table())
      flatten(*table, path + ".", into);
    else if (list == nullptr)
      into[path] = scalar_text(entry.value);
    else if (!list->empty() &&
             std::all_of(list->begin(), list->end(), [](const document_value& v) { return v.table() != nullptr; }))
      flatten_list(*list, path, into);
    else
      into[path] = list_text(*list);
  }
}

}  // namespace

flat_keys flat_keys_of(const document_table& root) {
  flat_keys keys;
  flatten(root, "", keys);
  return keys;
}

expected<flat_keys, diagnostics> read_flat_keys(const std::string& file) {
  const auto text = read_text(file);
  if (!text) return unexpected(text.error());
  const auto parsed = parse_document(*text, file);
  if (!parsed) return unexpected(parsed.error());
  return flat_keys_of(*parsed);
}

}  // namespace troupe
