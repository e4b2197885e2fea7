#include "runtime/node/config/key_places.hpp"

#include <algorithm>
#include <limits>

#include "ops/options.hpp"
#include "runtime/data/augment.hpp"
#include "runtime/node/config/job_keys.hpp"

namespace troupe {
namespace {

constexpr std::size_t longest_key = 80;  // the cost of the edit distance grows with the length

std::string last_part(const std::string& path) { return path.substr(path.rfind('.') + 1); }

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

std::vector<std::string> places_of_key(std::string_view name, const std::vector<std::string>& paths) {
  if (name.empty() || name.size() > longest_key) return {};
  std::vector<std::string> words;
  for (const auto& p : paths) words.push_back(last_part(p));
  const auto nearest = nearest_word(name, words);
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

}  // namespace troupe
