#include "runtime/node/config/plugin_list.hpp"

#include <filesystem>

#include "runtime/base/wording.hpp"
#include "runtime/node/config/job_document.hpp"
#include "runtime/node/config/job_file.hpp"
#include "runtime/node/config/plugin.hpp"
#include "runtime/spec/mistakes.hpp"

namespace troupe {

std::string relative_to(const std::string& file, const std::string& path) {
  const std::filesystem::path p(path);
  return p.is_absolute() ? path : (std::filesystem::path(file).parent_path() / p).lexically_normal().string();
}

namespace {

// The entry of `only` that `name` denotes, by its path or by its file name alone; empty: none. If
// `name` has a digest, the entry must have the same one.
std::string entry_for(const std::vector<std::string>& only, const std::string& name, const std::string& full) {
  const auto wanted = split_plugin(name);
  const auto path = split_plugin(full).path;
  const bool bare = wanted.path.find('/') == std::string::npos;
  const auto whole = [](const std::string& p) { return std::filesystem::absolute(p).lexically_normal(); };
  for (const auto& o : only) {
    const auto has = split_plugin(o);
    if (!wanted.sha256.empty() && wanted.sha256 != has.sha256) continue;
    if ((!bare && whole(path) == whole(has.path)) || (bare && std::filesystem::path(has.path).filename() == wanted.path)) return o;
  }
  return {};
}

// Describes how `name` differs from the entry of `only` with the same file name. Folders of this
// node are not disclosed.
std::string difference(const std::vector<std::string>& only, const std::string& name) {
  const auto wanted = split_plugin(name);
  const auto file = std::filesystem::path(wanted.path).filename().string();
  std::vector<std::string> files;
  for (const auto& o : only) {
    const auto has = split_plugin(o);
    files.push_back(std::filesystem::path(has.path).filename().string());
    if (files.back() != file) continue;
    if (!wanted.sha256.empty() && wanted.sha256 != has.sha256)
      return "; it names " + in_quotes(file) + (has.sha256.empty() ? " without a sha256" : " with another sha256");
    return "; it names " + in_quotes(file) + " in another folder: write the name alone, plugins = [\"" + file + "\"], to select it";
  }
  return did_you_mean(file, files);
}

bool is_digest(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

std::vector<std::string> take_plugins(table_reader& root, const std::string& file, const std::vector<std::string>* only) {
  std::vector<std::string> names, found;
  const auto* value = root.take("plugins");
  if (!value || !root.texts("plugins", names)) return found;
  for (std::size_t i = 0; i < names.size(); ++i) {
    auto path = relative_to(file, names[i]);
    const auto at = [&] {
      const auto* list = value->array();
      return list ? (*list)[i].at : root.at("plugins");
    };
    if (only) {
      found.push_back(entry_for(*only, names[i], path));
      if (!found.back().empty()) continue;
      found.pop_back();
      root.error_at(at(), "plugin " + in_quotes(names[i]) + ": this node loads only plugins that its cluster file names" +
                              difference(*only, names[i]));
      continue;
    }
    std::error_code ec;
    if (const auto digest = split_plugin(path).sha256; path.find("#sha256=") != std::string::npos && !is_digest(digest)) {
      root.error_at(at(), "plugin " + in_quotes(names[i]) + ": a sha256 has 64 digits of 0-9a-f, as printed by `sha256sum FILE`");
      continue;
    }
    if (names[i].empty() || !std::filesystem::is_regular_file(split_plugin(path).path, ec)) {
      root.error_at(at(), "there is no plugin " + in_quotes(names[i]) + " (looked for " + in_quotes(path) + ")");
      continue;
    }
    found.push_back(std::move(path));
  }
  return found;
}

expected<std::vector<std::string>, diagnostics> read_plugins(const std::string& text, const std::string& file,
                                                             const std::vector<std::string>& overrides,
                                                             const std::vector<std::string>* only) {
  auto doc = read_job_document(text, file, overrides);
  if (!doc) return unexpected(std::move(doc).error());
  return read_plugins(*doc, file, only);
}

expected<std::vector<std::string>, diagnostics> read_plugins(const job_document& d, const std::string& file,
                                                             const std::vector<std::string>* only) {
  diagnostics errors;
  table_reader root(d.root, "", {file, 1, 1}, errors);
  auto found = take_plugins(root, file, only);
  if (!errors.empty()) return unexpected(shown_mistakes(std::move(errors)));
  return found;
}

}  // namespace troupe
