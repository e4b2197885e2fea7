#include "apps/commands/prepare/models.hpp"

#include <CLI/CLI.hpp>
#include <filesystem>

#include "runtime/base/wording.hpp"
#include "runtime/node/config/job_file.hpp"

namespace troupe {

std::string format_list() {
  std::vector<std::string> each;
  for (const auto& f : model_formats()) {
    std::string extensions;
    for (const auto& e : f.extensions) extensions += (extensions.empty() ? "" : " ") + e;
    each.push_back(extensions + " (" + f.name + ")");
  }
  return joined(each);
}

void format_option(CLI::App& c, std::string& into) {
  std::vector<std::string> names;
  for (const auto& f : model_formats()) names.push_back(f.name);
  std::string text;
  for (const auto& n : names) text += (text.empty() ? "" : "|") + n;
  c.add_option("--format", into, "Format of the files (default: by their extension)")
      ->option_text(text)
      ->check(CLI::IsMember(names));
}

expected<const model_format*, diagnostic> chosen_format(const std::string& name, const std::vector<std::string>& files) {
  for (const auto& f : model_formats())
    if (f.name == name) return &f;
  const model_format* found = nullptr;
  for (const auto& file : files) {
    const auto* f = format_of_extension(std::filesystem::path(file).extension().string());
    if (!f)
      return unexpected(diagnostic{{file}, "is not a model that Troupe knows; it knows " + format_list() + "; or name a --format"});
    if (found && f != found)
      return unexpected(diagnostic{{file}, "is a file of " + f->name + ", but " + files[0] + " is one of " + found->name});
    found = f;
  }
  return found;
}

expected<name_pairs, diagnostics> read_names(const std::string& file) {
  if (file.empty()) return name_pairs();
  auto text = read_config_text(file);
  if (!text) return unexpected(text.error());
  return parse_names(*text, file);
}

}  // namespace troupe
