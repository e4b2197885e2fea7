#include "runtime/node/config/plugin_list.hpp"

#include <filesystem>

#include "runtime/graph/wording.hpp"

namespace troupe {

std::string beside(const std::string& file, const std::string& path) {
  const std::filesystem::path p(path);
  return p.is_absolute() ? path : (std::filesystem::path(file).parent_path() / p).lexically_normal().string();
}

std::vector<std::string> take_plugins(table_reader& root, const std::string& file) {
  std::vector<std::string> names, found;
  const auto* value = root.take("plugins");
  if (!value || !root.texts("plugins", names)) return found;
  for (std::size_t i = 0; i < names.size(); ++i) {
    auto path = beside(file, names[i]);
    std::error_code ec;
    if (names[i].empty() || !std::filesystem::is_regular_file(path, ec)) {
      const auto* list = value->array();
      root.error_at(list ? (*list)[i].at : root.at("plugins"),
                    "there is no plugin " + in_quotes(names[i]) + " (looked for " + in_quotes(path) + ")");
      continue;
    }
    found.push_back(std::move(path));
  }
  return found;
}

}  // namespace troupe
