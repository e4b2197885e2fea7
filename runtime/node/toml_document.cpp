// The only file that knows TOML++. Its assertions are compiled out: it asserts on texts that check_text has refused already.
#ifndef NDEBUG
#define NDEBUG
#endif
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wpedantic"
#endif
#include <toml++/toml.h>
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#include <algorithm>

#include "runtime/node/document.hpp"
#include "runtime/node/text_check.hpp"

namespace troupe {
namespace {

source_position position(const toml::source_region& r, const std::string& file) {
  return {file, static_cast<int>(r.begin.line), static_cast<int>(r.begin.column)};
}

document_value convert(const toml::node& n, const std::string& file);

document_table convert_table(const toml::table& t, const std::string& file) {
  document_table out;
  for (auto&& [key, value] : t) out.push_back({std::string(key.str()), position(key.source(), file), convert(value, file)});
  std::stable_sort(out.begin(), out.end(), [](const document_entry& a, const document_entry& b) {
    return std::pair(a.at.line, a.at.column) < std::pair(b.at.line, b.at.column);
  });
  return out;
}

document_value convert(const toml::node& n, const std::string& file) {
  document_value v;
  v.at = position(n.source(), file);
  v.value = document_other{};
  if (const auto* t = n.as_table()) {
    v.value = convert_table(*t, file);
  } else if (const auto* a = n.as_array()) {
    document_array list;
    for (auto&& e : *a) list.push_back(convert(e, file));
    v.value = std::move(list);
  } else if (const auto* b = n.as_boolean()) {
    v.value = b->get();
  } else if (const auto* i = n.as_integer()) {
    v.value = i->get();
  } else if (const auto* d = n.as_floating_point()) {
    v.value = d->get();
  } else if (const auto* s = n.as_string()) {
    v.value = s->get();
  }
  return v;
}

// TOML++ writes some characters of the file into its messages; a message is one printable line.
std::string one_line(std::string_view s) {
  std::string out;
  for (char c : s) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  return out;
}

}  // namespace

std::variant<document_table, diagnostics> parse_document(const std::string& text, const std::string& file) {
  diagnostics errors;
  if (text.size() > max_document_bytes) {
    errors.push_back({{file, 0, 0}, "the file is larger than 1 MiB: this is no configuration"});
    return errors;
  }
  if (!check_text(text, file, errors)) return errors;
  const auto parsed = toml::parse(std::string_view(text), std::string_view(file));
  if (!parsed) {
    const auto& e = parsed.error();
    errors.push_back({position(e.source(), file), one_line(e.description())});
    return errors;
  }
  return convert_table(parsed.table(), file);
}

}  // namespace troupe
