#include "runtime/node/config/json_schema.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ops/filler.hpp"
#include "runtime/base/printable.hpp"
#include "runtime/node/config/blocks.hpp"
#include "runtime/node/config/cluster_keys.hpp"
#include "runtime/node/config/entry_choices.hpp"
#include "runtime/node/config/job_keys.hpp"

namespace troupe {
namespace {

using json = nlohmann::ordered_json;
using names = std::vector<std::string>;

json ref(const std::string& definition) { return {{"$ref", "#/definitions/" + definition}}; }
json list_of(json item) { return {{"type", "array"}, {"items", std::move(item)}}; }
json pair_of(json item) { return {{"type", "array"}, {"items", std::move(item)}, {"minItems", 2}, {"maxItems", 2}}; }
json any_of(std::initializer_list<json> list) { return {{"anyOf", json(list)}}; }

// A number as JSON: an integer if it is one.
json number(double v) {
  if (v > -beyond_integers && v < beyond_integers && static_cast<double>(static_cast<std::int64_t>(v)) == v)
    return static_cast<std::int64_t>(v);
  return v;
}

json bounded(const char* type, double min, double max, double limit) {
  json s{{"type", type}};
  if (min > -limit) s["minimum"] = number(min);
  if (max < limit) s["maximum"] = number(max);
  return s;
}
json whole(double min, double max) { return bounded("integer", min, max, beyond_integers); }
json real(double min, double max) { return bounded("number", min, max, unlimited); }
json word_of(const names& words) { return {{"enum", words}}; }

const char* const time_pattern = "^[0-9.]+([eE][-+]?[0-9]+)? *(ns|us|ms|s|min|h|d)$";
const char* const bytes_pattern = "^[0-9.]+([eE][-+]?[0-9]+)? *(B|kB|MB|GB|KiB|MiB|GiB)$";

json time_schema() { return {{"type", "string"}, {"pattern", time_pattern}}; }

// Schema of a value; `path`: of the table that the key names, if it is one.
json schema_of(const key_descriptor& k, const std::string& path) {
  switch (k.kind) {
    case key_kind::text: return {{"type", "string"}};
    case key_kind::name: return {{"type", "string"}, {"minLength", 1}, {"maxLength", longest_name}};
    case key_kind::texts: return any_of({{{"type", "string"}}, list_of({{"type", "string"}})});
    case key_kind::whole: return whole(k.min, k.max);
    case key_kind::real: return real(k.min, k.max);
    case key_kind::reals: return any_of({real(k.min, k.max), list_of(real(k.min, k.max))});
    case key_kind::flag: return {{"type", "boolean"}};
    case key_kind::word: return word_of(k.words);
    case key_kind::time: return time_schema();
    case key_kind::steps_or_time: return any_of({whole(1, unlimited), time_schema(), word_of({"never"})});
    case key_kind::bytes: return any_of({whole(0, unlimited), {{"type", "string"}, {"pattern", bytes_pattern}}});
    case key_kind::table: return ref(path);
    case key_kind::tables: return list_of(ref(path));
    case key_kind::entry: return {{"type", "string"}};
  }
  return json::object();
}

json schema_of(const option_spec& o) {
  const auto numbers = [&](json s) { return o.choices.empty() ? s : any_of({s, word_of(o.choices)}); };
  const auto real_option = real(o.min, o.max);
  const auto whole_option = whole(o.min, o.max);
  switch (o.kind) {
    case option_kind::boolean: return {{"type", "boolean"}};
    case option_kind::integer: return o.by_axis ? any_of({whole_option, pair_of(whole_option)}) : numbers(whole_option);
    case option_kind::real: return numbers(real_option);
    case option_kind::text: return o.choices.empty() ? json{{"type", "string"}} : word_of(o.choices);
    case option_kind::integers: return list_of(whole_option);
    case option_kind::reals: return numbers(list_of(real_option));
    case option_kind::texts: return list_of(o.choices.empty() ? json{{"type", "string"}} : word_of(o.choices));
    case option_kind::table: return o.name.ends_with("filler") ? ref("filler") : json{{"type", "object"}};
  }
  return json::object();
}

json default_of(const option_value& v) {
  return std::visit(
      [](const auto& x) -> json {
        if constexpr (std::is_same_v<std::decay_t<decltype(x)>, std::shared_ptr<options>>)
          return json::object();
        else
          return x;
      },
      v);
}

json property_of(const option_spec& o) {
  auto s = schema_of(o);
  s["description"] = o.doc;
  if (o.fallback) s["default"] = default_of(*o.fallback);
  return s;
}

// A default of a key that is a word, number or flag as TOML and JSON write it.
void add_default(const key_descriptor& k, json& s) {
  if (k.fallback.empty() || (k.fallback.front() == '{' && k.fallback.size() > 2)) return;
  const auto value = json::parse(k.fallback, nullptr, false);
  if (!value.is_discarded()) s["default"] = value;
}

json property_of(const key_descriptor& k, const std::string& path) {
  auto s = schema_of(k, path);
  json described{{"description", k.doc}};
  if (s.contains("$ref")) {  // draft 7 ignores what is beside $ref
    described["allOf"] = json::array({s});
    return described;
  }
  s["description"] = k.doc;
  add_default(k, s);
  return s;
}

// "[train.dynamics]" as "train.dynamics"; "" for the keys outside of tables.
std::string path_of(const key_table& t) {
  const auto from = t.name.find_first_not_of('[');
  return t.name[0] == '[' ? t.name.substr(from, t.name.find(']') - from) : std::string();
}
std::string key_below(const std::string& table, const std::string& key) { return table.empty() ? key : table + "." + key; }

class schema_writer {
 public:
  schema_writer(std::vector<key_table> tables, std::map<std::string, table_choice> choices)
      : tables_(std::move(tables)), choices_(std::move(choices)) {}

  // The object of a table whose keys do not depend on an entry.
  json plain(const key_table& t) const {
    json s{{"type", "object"}, {"properties", properties(t)}, {"additionalProperties", false}};
    return s;
  }

  json properties(const key_table& t) const {
    json all = json::object();
    for (const auto& k : t.entries) all[k.name] = property_of(k, key_below(path_of(t), k.name));
    return all;
  }

  // The object of a table that names an entry: the options that it may have depend on the entry.
  // `change`: applied to the schema of each option.
  template <class Change>
  json chosen(const json& keys, const table_choice& c, const Change& change) const {
    json s{{"type", "object"}, {"properties", keys}, {"allOf", json::array()}};
    auto words = c.names;
    if (keys.contains("reducer")) words.emplace_back("auto");
    s["properties"][c.key]["enum"] = words;
    json allowed = json::object();
    for (const auto& [key, value] : keys.items()) allowed[key] = true;
    for (const auto& name : words) {
      auto own = allowed;
      json needed = json::array();
      if (const auto options = c.options.find(name); options != c.options.end())
        for (const auto& o : options->second) {
          if (allowed.contains(o.name) && o.name != "algorithm") continue;
          own[o.name] = change(property_of(o));
          if (!o.fallback) needed.push_back(o.name);
        }
      json then{{"properties", own}, {"additionalProperties", false}};
      if (!needed.empty()) then["required"] = needed;
      s["allOf"].push_back({{"if", {{"properties", {{c.key, {{"const", name}}}}}, {"required", {c.key}}}}, {"then", then}});
    }
    return s;
  }

  json definition(const key_table& t) const {
    const auto same = [](json s) { return s; };
    const auto choice = choices_.find(path_of(t));
    return choice == choices_.end() || choice->second.key.empty() ? plain(t) : chosen(properties(t), choice->second, same);
  }

  const key_table& table(const std::string& path) const {
    return *std::find_if(tables_.begin(), tables_.end(), [&](const auto& t) { return path_of(t) == path; });
  }
  const table_choice& choice(const std::string& path) const { return choices_.at(path); }
  const std::vector<key_table>& tables() const { return tables_; }

 private:
  std::vector<key_table> tables_;
  std::map<std::string, table_choice> choices_;
};

json filler_schema() {
  json s{{"type", "object"}, {"description", "initial values of a parameter"}, {"allOf", json::array()}};
  s["properties"]["kind"]["enum"] = filler_kinds();
  for (const auto& kind : filler_kinds()) {
    json own{{"kind", true}};
    for (const auto& o : filler_options(kind)) own[o.name] = property_of(o);
    json condition{{"properties", {{"kind", {{"const", kind}}}}}};
    if (kind != "constant") condition["required"] = {"kind"};  // the kind of a table without one
    s["allOf"].push_back({{"if", condition}, {"then", {{"properties", own}, {"additionalProperties", false}}}});
  }
  return s;
}

// Any value of a layer in a block may be a text with braces, also in lists.
json or_computed(json s) {
  if (s.contains("items")) s["items"] = json{{"anyOf", json::array({s["items"], ref("computed")})}};
  if (s.contains("anyOf"))
    for (auto& way : s["anyOf"])
      if (way.contains("items")) way["items"] = json{{"anyOf", json::array({way["items"], ref("computed")})}};
  json either{{"anyOf", json::array({json::object(), ref("computed")})}};
  for (const char* key : {"description", "default"})
    if (s.contains(key)) {
      either[key] = s[key];
      s.erase(key);
    }
  either["anyOf"][0] = std::move(s);
  return either;
}

// [[layer]] with a block: the keys of a use, those of all layers, and the parameters.
json use_schema(const schema_writer& w, bool inside) {
  json properties = w.properties(block_tables()[1]);
  const auto common = w.properties(w.table("layer"));
  for (const auto& [key, value] : common.items())
    if (!properties.contains(key) && key != "type" && key != "algorithm" && key != "loss_weight" && key != "share")
      properties[key] = value;
  if (inside)
    for (const char* key : {"repeat", "first"}) properties[key] = or_computed(properties[key]);
  return {{"type", "object"}, {"properties", properties}, {"required", {"name", "block"}}};
}

json layer_schema(const schema_writer& w, bool inside) {
  auto keys = w.properties(w.table("layer"));
  keys["fraction"]["anyOf"].push_back(word_of({"auto"}));
  if (inside)
    for (auto& [key, value] : keys.items())
      if (key != "name" && key != "type" && key != "inputs") value = or_computed(value);
  auto type = keys["type"];
  auto written = w.chosen(keys, w.choice("layer"), [inside](json s) { return inside ? or_computed(std::move(s)) : s; });
  if (inside) {  // the type may be a parameter
    written["properties"]["type"].erase("enum");
    written["properties"]["type"]["anyOf"] = json::array({word_of(w.choice("layer").names), ref("computed")});
  }
  // The key `algorithm` is one of each layer with the only value "auto", or an option of the type.
  written["properties"].erase("algorithm");
  for (auto& branch : written["allOf"]) {
    auto& own = branch["then"]["properties"];
    if (own["algorithm"] == json(true)) own["algorithm"] = keys["algorithm"];
  }
  written["required"] = {"name", "type"};
  return {{"if", {{"required", {"block"}}}}, {"then", ref(inside ? "block_layer_use" : "layer_use")}, {"else", written}};
}

json block_schema(const schema_writer& w) {
  auto s = w.plain(block_tables()[0]);
  s["properties"]["parameters"] = {{"type", "object"}, {"description", s["properties"]["parameters"]["description"]}};
  s["properties"]["layer"]["items"] = ref("block_layer");
  s["properties"]["layer"]["minItems"] = 1;
  s["required"] = {"name", "layer"};
  return s;
}

json document(const std::string& title, const schema_writer& w) {
  json s{{"$schema", "http://json-schema.org/draft-07/schema#"}, {"title", title}};
  s.update(w.plain(w.tables().front()));
  s["definitions"] = json::object();
  for (const auto& t : w.tables())
    if (!path_of(t).empty()) s["definitions"][path_of(t)] = w.definition(t);
  return s;
}

}  // namespace

nlohmann::ordered_json job_schema(const tables& all) {
  const auto choices = choices_of(all);
  const schema_writer w(job_tables(), choices);
  auto s = document("A job file of Troupe", w);
  auto& d = s["definitions"];
  json augment = json::object();
  for (const auto& o : choices.at("data.augment").options.at("")) augment[o.name] = property_of(o);
  d["data.augment"] = {{"type", "object"}, {"properties", augment}, {"additionalProperties", false}};
  d["filler"] = filler_schema();
  d["computed"] = {{"type", "string"}, {"pattern", "\\{.*\\}"}, {"description", "a text with values of the block in braces"}};
  d["layer"] = layer_schema(w, false);
  d["layer_use"] = use_schema(w, false);
  d["block_layer"] = layer_schema(w, true);
  d["block_layer_use"] = use_schema(w, true);
  d["block"] = block_schema(w);
  d["included"] = {{"type", "object"},
                   {"properties", {{"file", {{"type", "string"}}}, {"text", {{"type", "string"}}}}},
                   {"required", {"file", "text"}},
                   {"additionalProperties", false}};
  // What a file needs may be in the files that it includes.
  s["if"] = {{"not", {{"required", {"include"}}}}};
  s["then"] = {{"required", {"data", "layer", "train"}},
               {"properties", {{"data", {{"required", {"source"}}}}, {"train", {{"required", {"finish"}}}}}}};
  return s;
}

nlohmann::ordered_json cluster_schema() {
  const schema_writer w(cluster_tables(), {});
  auto s = document("A cluster file of Troupe", w);
  const auto require = [](const key_table& t, json& object) {
    for (const auto& k : t.entries)
      if (k.required) object["required"].push_back(k.name);
  };
  for (const auto& t : w.tables()) require(t, path_of(t).empty() ? s : s["definitions"][path_of(t)]);
  return s;
}

}  // namespace troupe
