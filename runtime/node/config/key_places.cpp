#include "runtime/node/config/key_places.hpp"

#include <algorithm>
#include <limits>

#include "ops/options.hpp"
#include "runtime/base/other_words.hpp"
#include "runtime/data/augment.hpp"
#include "runtime/node/config/job_keys.hpp"

namespace troupe {
namespace {

constexpr std::size_t longest_key = 80;  // the cost of the edit distance grows with the length

std::string last_part(const std::string& path) { return path.substr(path.rfind('.') + 1); }

std::vector<std::string> entry_key_of(const std::string& table) {
  for (const auto& t : job_tables())
    for (const auto& k : t.entries)
      if (t.name == table && k.kind == key_kind::entry) return {table.substr(1, table.size() - 2) + "." + k.name};
  return {};
}

template <class Registry>
void add_options(std::vector<std::string>& paths, const std::string& table, const Registry& entries) {
  for (const auto& name : entries.names())
    for (const auto& o : entries.find(name)->specs) paths.push_back(table + "." + o.name);
}

}  // namespace

std::vector<std::string> job_key_paths(const tables& all) {
  std::vector<std::string> paths;
  for (const auto& t : job_tables()) {
    if (t.name.starts_with("[[")) continue;
    const auto table = t.name.starts_with("[") ? t.name.substr(1, t.name.size() - 2) + "." : std::string();
    for (const auto& k : t.entries) paths.push_back(table + k.name);
  }
  for (const auto& o : augmentation::specs()) paths.push_back("data.augment." + o.name);
  add_options(paths, "data", all.sources);
  add_options(paths, "train.sampler", all.samplers);
  add_options(paths, "train.dynamics", all.rules);
  add_options(paths, "train.dynamics.schedule", all.schedules);
  add_options(paths, "train.sync", all.modes);
  add_options(paths, "train.sync.when", all.conditions);
  add_options(paths, "train.exchange", all.reducers);
  add_options(paths, "train.finish.custom", all.finishes);
  add_options(paths, "eval.sampler", all.eval_samplers);
  return paths;
}

std::string simplified_name(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  std::string s(name);
  for (auto& c : s) c = c == '-' ? '_' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return s;
}

std::string key_called_elsewhere(std::string_view name) {
  for (auto& ours : words_for(name))
    if (ours.find('.') != std::string::npos) return std::move(ours);
  return {};
}

std::vector<std::string> places_of_key(std::string_view name, const std::vector<std::string>& paths) {
  if (name.empty() || name.size() > longest_key) return {};
  const auto simple = simplified_name(name);
  std::vector<std::string> words;
  for (const auto& p : paths) words.push_back(last_part(p));
  const bool exact = std::find(words.begin(), words.end(), simple) != words.end();
  if (const auto key = key_called_elsewhere(simple); !exact && std::find(paths.begin(), paths.end(), key) != paths.end())
    return {key};
  const auto nearest = exact ? simple : nearest_word(simple, words);
  std::vector<std::string> found;
  auto least = std::numeric_limits<std::ptrdiff_t>::max();
  for (const auto& p : paths) {
    if (nearest.empty() || last_part(p) != nearest) continue;
    const auto depth = std::count(p.begin(), p.end(), '.');
    if (depth < least) found.clear();
    least = std::min(least, depth);
    if (depth == least && std::find(found.begin(), found.end(), p) == found.end()) found.push_back(p);
  }
  return found;
}

key_finder finder_of_job_keys(const document_table& root, const tables& all) {
  return [&root, &all](const std::string& key) {
    if (key.starts_with("[")) return entry_key_of(key);
    if (const auto* layers = find_entry(root, "layer"); layers && layers->value.array())
      for (const auto& l : *layers->value.array())
        if (const auto* name = l.table() ? find_entry(*l.table(), "name") : nullptr)
          if (const auto* word = std::get_if<std::string>(&name->value.value); word && *word == key)
            return std::vector<std::string>{"layer." + key};
    return places_of_key(key, job_key_paths(all));
  };
}

}  // namespace troupe
