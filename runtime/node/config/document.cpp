#include "runtime/node/config/document.hpp"

#include <algorithm>
#include <filesystem>

#include "runtime/base/wording.hpp"
#include "runtime/data/file_bytes.hpp"
#include "runtime/spec/mistakes.hpp"

namespace troupe {
namespace {

bool bare_word(std::string_view s) {
  const auto plain = [](unsigned char c) {
    return c > 0x20 && c != 0x7f && c != '"' && c != '\'' && c != '[' && c != ']' && c != '{' && c != '}' && c != '#' && c != '=' &&
           c != ',';
  };
  return !s.empty() && std::all_of(s.begin(), s.end(), plain);
}

// Parses the value of an override.
expected<document_value> parse_value(const std::string& text, const std::string& where) {
  if (text.find('\n') == std::string::npos && text.find('\0') == std::string::npos) {
    auto parsed = parse_document("v = " + text, where);
    if (parsed && parsed->size() == 1 && parsed->front().key == "v") return std::move(parsed->front().value);
  }
  if (!bare_word(text) || !parse_document("v = \"\"\nw = '" + text + "'", where))
    return unexpected(error("bad value " + in_quotes(text) + ": write a TOML value or a bare word"));
  document_value v;
  v.value = text;
  return v;
}

// Sets the position of a value, and of everything in it, to that of the override.
void place(document_value& v, const source_position& at) {
  v.at = at;
  if (auto* a = std::get_if<document_array>(&v.value))
    for (auto& e : *a) place(e, at);
  if (auto* t = std::get_if<document_table>(&v.value))
    for (auto& e : *t) {
      e.at = at;
      place(e.value, at);
    }
}

std::string trimmed(const std::string& s) {
  const auto first = s.find_first_not_of(' ');
  return first == std::string::npos ? "" : s.substr(first, s.find_last_not_of(' ') - first + 1);
}

std::vector<std::string> split_path(const std::string& path) {
  std::vector<std::string> parts(1);
  for (char c : path) {
    if (c == '.')
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

const char* name_of_kind(std::filesystem::file_type t) {
  using enum std::filesystem::file_type;
  if (t == directory) return "a folder";
  if (t == fifo) return "a FIFO";
  if (t == socket) return "a socket";
  return t == block || t == character ? "a device" : "something else";
}

bool is_named(const document_value& v, const std::string& name) {
  const auto* t = v.table();
  const auto* e = t ? find_entry(*t, "name") : nullptr;
  const auto* s = e ? std::get_if<std::string>(&e->value.value) : nullptr;
  return s && *s == name;
}

std::vector<std::string> names_in(const document_array& list) {
  std::vector<std::string> names;
  for (const auto& v : list)
    if (const auto* e = v.table() ? find_entry(*v.table(), "name") : nullptr)
      if (const auto* s = std::get_if<std::string>(&e->value.value)) names.push_back(*s);
  return names;
}

// The table that contains the last element of `path`; missing tables are created. Returns null and
// sets `error` if an element is not a table.
document_table* descend(document_table& root, const std::vector<std::string>& path, const source_position& at, std::string& error) {
  document_table* t = &root;
  for (std::size_t i = 0; i + 1 < path.size(); ++i) {
    auto e = std::find_if(t->begin(), t->end(), [&](const document_entry& x) { return x.key == path[i]; });
    if (e == t->end()) {
      t->push_back({path[i], at, {document_table{}, at}});
      e = t->end() - 1;
    }
    auto* value = &e->value;
    if (auto* list = std::get_if<document_array>(&value->value); list && i + 2 < path.size()) {
      const auto& name = path[++i];
      auto found = std::find_if(list->begin(), list->end(), [&](const document_value& v) { return is_named(v, name); });
      if (found == list->end()) {
        error = "there is no " + path[i - 1] + " called " + in_quotes(name) + did_you_mean(name, names_in(*list));
        return nullptr;
      }
      value = &*found;
    }
    t = std::get_if<document_table>(&value->value);
    if (!t) {
      error = in_quotes(path[i]) + " is " + kind_of(*value) + ", not a table";
      return nullptr;
    }
  }
  return t;
}

}  // namespace

const document_entry* find_entry(const document_table& t, std::string_view key) {
  for (const auto& e : t)
    if (e.key == key) return &e;
  return nullptr;
}

const char* kind_of(const document_value& v) {
  static constexpr const char* names[] = {"a boolean", "an integer", "a number", "a string", "a list", "a table", "a date or time"};
  return names[v.value.index()];
}

expected<std::string, diagnostics> read_text(const std::string& path) {
  const auto fail = [&](std::string why) { return unexpected(diagnostics{{{path, 0, 0}, std::move(why)}}); };
  std::error_code ec;
  const auto status = std::filesystem::status(path, ec);
  if (!std::filesystem::exists(status)) return fail("there is no such file");
  if (!std::filesystem::is_regular_file(status))
    return fail(std::string("this is ") + name_of_kind(status.type()) + ", not a regular file");
  // If another kind of file has replaced it since this check, opening it fails without blocking.
  std::vector<std::uint8_t> bytes;
  if (std::filesystem::file_size(path, ec) > max_document_bytes && !ec)
    return fail("the file is larger than 1 MiB, the limit for configuration files");
  if (const auto read = read_whole(path, bytes, max_document_bytes); !read)
    return fail("the file cannot be read: " + read.error().text);
  return std::string(bytes.begin(), bytes.end());
}

void apply_override(document_table& root, const std::string& override_text, diagnostics& errors) {
  const auto shown = in_quotes(override_text);
  const source_position at{"--set " + shown.substr(1, shown.size() - 2), 0, 0};
  const auto fail = [&](std::string what) { errors.push_back({at, std::move(what)}); };
  const auto equals = override_text.find('=');
  if (equals == std::string::npos || equals == 0) return fail("an override is written key=value, as in train.finish.epochs=1");
  const auto key = trimmed(override_text.substr(0, equals));
  const auto path = split_path(key);
  const auto odd = [](const std::string& part) {
    return part.empty() ||
           std::any_of(part.begin(), part.end(), [](unsigned char c) { return c <= 0x20 || c == 0x7f || c == '"' || c == '\''; });
  };
  if (path.size() > 16 || std::any_of(path.begin(), path.end(), odd)) return fail("bad key " + in_quotes(key));
  auto value = parse_value(trimmed(override_text.substr(equals + 1)), at.file);
  if (!value) return fail(value.error().text);
  std::string error;
  auto* t = descend(root, path, at, error);
  if (!t) return fail(error);
  auto& v = *value;
  place(v, at);
  auto old = std::find_if(t->begin(), t->end(), [&](const document_entry& x) { return x.key == path.back(); });
  if (old != t->end()) {
    old->at = at;
    old->value = std::move(v);
  } else {
    t->push_back({path.back(), at, std::move(v)});
  }
}

expected<document_table, diagnostics> parse_document(const std::string& text, const std::string& file,
                                                     const std::vector<std::string>& overrides) {
  auto parsed = parse_document(text, file);
  diagnostics errors;
  if (overrides.size() > max_overrides)
    return unexpected(diagnostics{
        {{file, 0, 0}, std::to_string(overrides.size()) + " overrides; the maximum is " + std::to_string(max_overrides)}});
  if (parsed)
    for (const auto& o : overrides) apply_override(*parsed, o, errors);
  if (!errors.empty()) return unexpected(shown_mistakes(std::move(errors)));
  return parsed;
}

}  // namespace troupe
