#include "runtime/node/config/include.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "runtime/base/printable.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/config/toml_text.hpp"

namespace troupe {
namespace {

struct include_line {
  std::string file;  // as it would be opened
  source_position at;
};

using texts_by_file = std::map<std::string, std::string>;

std::string beside(const std::string& file, const std::string& name) {
  const std::filesystem::path p(name);
  return (p.is_absolute() ? p : std::filesystem::path(file).parent_path() / p).lexically_normal().string();
}

// The files that a document includes.
std::vector<include_line> includes_of(const document_table& root, const std::string& file, diagnostics& errors) {
  std::vector<include_line> all;
  const auto* e = find_entry(root, "include");
  if (!e) return all;
  const auto add = [&](const document_value& v) {
    const auto* s = std::get_if<std::string>(&v.value);
    if (!s || s->empty() || s->find('\0') != std::string::npos)
      errors.push_back({v.at, "'include' must be the path of a job file, or a list of them"});
    else if (const auto fine = check_path(*s); !fine)
      errors.push_back({v.at, "'include': " + fine.error().text});
    else
      all.push_back({beside(file, *s), v.at});
  };
  if (const auto* list = e->value.array())
    for (const auto& v : *list) add(v);
  else
    add(e->value);
  return all;
}

// The files from the job file down to the one that is read, to find cycles.
using open_files = std::vector<std::string>;

bool may_include(const include_line& line, const open_files& open, diagnostics& errors) {
  std::string why;
  if (std::find(open.begin(), open.end(), line.file) != open.end())
    why = "includes itself: " + joined(open, " includes ") + " includes " + line.file;
  else if (open.size() > static_cast<std::size_t>(max_include_depth))
    why = "is included more than " + std::to_string(max_include_depth) + " files deep";
  if (!why.empty()) errors.push_back({line.at, in_quotes(line.file) + " " + why});
  return why.empty();
}

class file_collector {
 public:
  expected<texts_by_file, diagnostics> collect(const document_table& root, const std::string& file) {
    open_.push_back(std::filesystem::path(file).lexically_normal().string());
    read_all(includes_of(root, file, errors_));
    if (!errors_.empty()) return unexpected(std::move(errors_));
    return std::move(texts_);
  }

 private:
  void read_all(const std::vector<include_line>& lines) {
    for (const auto& line : lines) {
      if (!may_include(line, open_, errors_) || texts_.contains(line.file)) continue;
      if (texts_.size() >= max_included)
        return errors_.push_back({line.at, "a job includes more than " + std::to_string(max_included) + " files"});
      auto text = read_text(line.file);
      if (!text) {
        errors_.push_back({line.at, in_quotes(line.file) + ": " + text.error().front().message});
        continue;
      }
      const auto root = parse_document(*text, line.file);
      texts_[line.file] = std::move(*text);
      if (!root) {
        errors_.insert(errors_.end(), root.error().begin(), root.error().end());
        continue;
      }
      open_.push_back(line.file);
      read_all(includes_of(*root, line.file, errors_));
      open_.pop_back();
    }
  }

  texts_by_file texts_;
  open_files open_;
  diagnostics errors_;
};

// Merges `over` into `base`; `top`: they are whole documents.
void merge(document_table& base, document_table&& over, bool top) {
  for (auto& e : over) {
    const auto old = std::find_if(base.begin(), base.end(), [&](const auto& b) { return b.key == e.key; });
    if (old == base.end()) {
      base.push_back(std::move(e));
      continue;
    }
    auto *table = std::get_if<document_table>(&old->value.value), *over_table = std::get_if<document_table>(&e.value.value);
    auto *list = std::get_if<document_array>(&old->value.value), *over_list = std::get_if<document_array>(&e.value.value);
    if (table && over_table) {
      merge(*table, std::move(*over_table), false);
      old->at = e.at;
    } else if (top && list && over_list && (e.key == "layer" || e.key == "block")) {
      std::move(over_list->begin(), over_list->end(), std::back_inserter(*list));
      old->at = e.at;
    } else {
      *old = std::move(e);
    }
  }
}

class merger {
 public:
  merger(texts_by_file texts, diagnostics& errors) : texts_(std::move(texts)), errors_(errors) {}

  // `root` with everything that it includes.
  document_table whole(document_table root, const std::string& file) {
    const auto lines = includes_of(root, file, errors_);
    std::erase_if(root, [](const auto& e) { return e.key == "include"; });
    if (lines.empty()) return root;
    document_table base;
    open_.push_back(std::filesystem::path(file).lexically_normal().string());
    for (const auto& line : lines) {
      if (errors_.empty() && may_include(line, open_, errors_) && done_.insert(line.file).second) merge(base, included(line), true);
    }
    open_.pop_back();
    merge(base, std::move(root), true);
    return base;
  }

 private:
  document_table included(const include_line& line) {
    const auto text = texts_.find(line.file);
    if (text == texts_.end()) {
      errors_.push_back({line.at, in_quotes(line.file) +
                                      " did not come with the text of the job, and a job's text opens no "
                                      "files: submit the job file with `troupe train` or `submit`, which send it"});
      return {};
    }
    auto root = parse_document(text->second, line.file);
    if (!root) {
      errors_.insert(errors_.end(), root.error().begin(), root.error().end());
      return {};
    }
    if (const auto* inner = find_entry(*root, "included")) {
      errors_.push_back({inner->at, "an included file cannot have 'included'"});
      return {};
    }
    return whole(*std::move(root), line.file);
  }

  texts_by_file texts_;
  open_files open_;
  diagnostics& errors_;
  std::set<std::string> done_;
};

// The texts of [[included]] tables.
texts_by_file texts_in(const document_table& root, diagnostics& errors) {
  texts_by_file texts;
  const auto* e = find_entry(root, "included");
  if (!e) return texts;
  const auto* list = e->value.array();
  const auto fail = [&](const source_position& at) {
    errors.push_back({at, "'included' has the texts of included files as tables with `file` and `text`; programs write it"});
  };
  if (!list) return fail(e->at), texts;
  for (const auto& v : *list) {
    const auto* t = v.table();
    const auto *file = t ? find_entry(*t, "file") : nullptr, *text = t ? find_entry(*t, "text") : nullptr;
    const auto *name = file ? std::get_if<std::string>(&file->value.value) : nullptr,
               *content = text ? std::get_if<std::string>(&text->value.value) : nullptr;
    if (!name || !content || t->size() != 2) return fail(v.at), texts;
    if (const auto fine = check_path(*name); !fine) {
      errors.push_back({v.at, "'included': " + fine.error().text});
      return texts;
    }
    texts[*name] = *content;
  }
  return texts;
}

}  // namespace

expected<std::string, diagnostics> with_included_texts(const std::string& text, const std::string& file) {
  if (text.find("include") == std::string::npos) return text;
  const auto root = parse_document(text, file);
  if (!root || !find_entry(*root, "include") || find_entry(*root, "included")) return text;
  const auto texts = file_collector().collect(*root, file);
  if (!texts) return unexpected(texts.error());
  auto whole = text + (text.ends_with('\n') ? "" : "\n");
  for (const auto& [name, content] : *texts)
    whole += "\n[[included]]\nfile = " + toml_text(name) + "\ntext = " + toml_text(content) + "\n";
  if (whole.size() > max_document_bytes)
    return unexpected(
        diagnostics{{find_entry(*root, "include")->at, "the file and the files that it includes are larger than 1 MiB together"}});
  return whole;
}

void merge_included(document_table& root, const std::string& file, diagnostics& errors) {
  if (!find_entry(root, "include") && !find_entry(root, "included")) return;
  auto texts = texts_in(root, errors);
  std::erase_if(root, [](const auto& e) { return e.key == "included"; });
  if (errors.empty()) root = merger(std::move(texts), errors).whole(std::move(root), file);
  std::erase_if(root, [](const auto& e) { return e.key == "include"; });
}

}  // namespace troupe
