#include "runtime/node/config/plugin_list.hpp"

#include <filesystem>

#include "runtime/graph/wording.hpp"

namespace troupe {

std::string beside(const std::string& file, const std::string& path) {
  const std::filesystem::path p(path);
  return p.is_absolute() ? path : (std::filesystem::path(file).parent_path() / p).lexically_normal().string();
}

namespace {

// One of `only` by its path or by its file's name alone; empty: none.
std::string one_of(const std::vector<std::string>& only, const std::string& name, const std::string& path) {
  const bool bare = name.find('/') == std::string::npos;
  const auto whole = [](const std::string& p) { return std::filesystem::absolute(p).lexically_normal(); };
  for (const auto& o : only)
    if ((!bare && whole(path) == whole(o)) || (bare && std::filesystem::path(o).filename() == name)) return o;
  return {};
}

}  // namespace

std::vector<std::string> take_plugins(table_reader& root, const std::string& file, const std::vector<std::string>* only) {
  std::vector<std::string> names, found;
  const auto* value = root.take("plugins");
  if (!value || !root.texts("plugins", names)) return found;
  for (std::size_t i = 0; i < names.size(); ++i) {
    auto path = beside(file, names[i]);
    const auto at = [&] {
      const auto* list = value->array();
      return list ? (*list)[i].at : root.at("plugins");
    };
    if (only) {
      found.push_back(one_of(*only, names[i], path));
      if (!found.back().empty()) continue;
      found.pop_back();
      root.error_at(at(), "plugin " + in_quotes(names[i]) + ": this node loads only plugins that its cluster file names");
      continue;
    }
    std::error_code ec;
    if (names[i].empty() || !std::filesystem::is_regular_file(path, ec)) {
      root.error_at(at(), "there is no plugin " + in_quotes(names[i]) + " (looked for " + in_quotes(path) + ")");
      continue;
    }
    found.push_back(std::move(path));
  }
  return found;
}

}  // namespace troupe
