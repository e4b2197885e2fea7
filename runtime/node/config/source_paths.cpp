#include "runtime/node/config/source_paths.hpp"

#include <filesystem>
#include <optional>
#include <system_error>

namespace troupe {
namespace {

std::string absolute_of(const std::string& path) {
  std::error_code ec;
  const auto whole = std::filesystem::absolute(path, ec);
  return ec ? path : whole.lexically_normal().string();
}

bool may_be_relative(const std::string& text) {
  return !text.empty() && text.front() != '/' && text.find('\0') == std::string::npos;
}

bool looks_like_a_path(const std::string& text) {
  std::error_code ec;
  return text.find('/') != std::string::npos || std::filesystem::exists(text, ec);
}

// The files that the source would read; nullopt if it does not know.
std::optional<std::vector<std::string>> files_with(const source_type& type, const options& o) {
  try {
    std::vector<std::string> paths;
    for (const auto& f : type.files(o)) paths.push_back(f.path);
    return paths;
  } catch (const option_error&) {
    return std::nullopt;
  }
}

// True if `changed`, in which one text is an absolute path, names the same files as `o`, and names
// some of them in another way: then the text is the path of a file or of its folder. A text that is
// a path below another option, or no path at all, fails one of the two.
bool same_files(const source_type& type, const options& o, const options& changed) {
  const auto before = files_with(type, o), after = files_with(type, changed);
  if (!before || !after || *before == *after || before->size() != after->size()) return false;
  for (std::size_t i = 0; i < before->size(); ++i)
    if (absolute_of((*before)[i]) != absolute_of((*after)[i])) return false;
  return true;
}

}  // namespace

options with_absolute_paths(const options& o, const source_type& type) {
  auto result = o;
  for (const auto& s : type.specs) {
    const auto at = result.values.find(s.name);
    if (at == result.values.end() || !s.choices.empty()) continue;
    auto changed = result;
    auto& value = changed.values[s.name];
    bool some = false;
    const auto replace = [&](std::string& text) {
      if (!may_be_relative(text) || (!type.files && !looks_like_a_path(text))) return;
      text = absolute_of(text), some = true;
    };
    if (auto* text = std::get_if<std::string>(&value)) replace(*text);
    if (auto* texts = std::get_if<std::vector<std::string>>(&value))
      for (auto& t : *texts) replace(t);
    if (some && (!type.files || same_files(type, result, changed))) result = std::move(changed);
  }
  return result;
}

}  // namespace troupe
