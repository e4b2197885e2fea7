#include "apps/troupe_registry.hpp"

#include <CLI/CLI.hpp>

#include "apps/command.hpp"

namespace troupe {

using json = nlohmann::ordered_json;

std::string number_text(double x) {
  return json(x == static_cast<double>(static_cast<std::int64_t>(x)) ? json(static_cast<std::int64_t>(x)) : json(x)).dump();
}

std::string without_trailing_blanks(const std::string& text) {
  std::string s;
  for (const char c : text) {
    if (c == '\n')
      while (!s.empty() && s.back() == ' ') s.pop_back();
    s += c;
  }
  return s;
}

namespace {

const char* kind_name(option_kind k) {
  switch (k) {
    case option_kind::boolean: return "true/false";
    case option_kind::integer: return "integer";
    case option_kind::real: return "number";
    case option_kind::text: return "text";
    case option_kind::integers: return "integers";
    case option_kind::reals: return "numbers";
    case option_kind::texts: return "texts";
    case option_kind::table: return "table";
  }
  return "?";
}

std::string range_text(const option_spec& s) {
  const bool number = s.kind == option_kind::integer || s.kind == option_kind::real;
  if (!s.choices.empty() && !number) return joined(s.choices, " | ");
  const bool low = s.min > -1e299, high = s.max < 1e8;  // larger limits are placeholders for "no limit"
  std::string text;
  if (low && high)
    text = number_text(s.min) + " to " + number_text(s.max);
  else if (low)
    text = "at least " + number_text(s.min);
  else if (high)
    text = "at most " + number_text(s.max);
  for (const auto& word : s.choices)
    text += (text.empty() ? "" : ", or ") + json(word).dump();  // words allowed in addition to numbers
  return text;
}

}  // namespace

void list_options(CLI::App& c, list_arguments& a, const char* what) {
  c.add_option("NAME", a.name, what)->option_text(" ");
  c.add_option("--plugin", a.plugins, "Include the entries of this plugin; may be repeated")
      ->option_text("FILE")
      ->allow_extra_args(false);
  json_option(c);
}

json value_json(const option_value& v) {
  return std::visit(
      [](const auto& x) -> json {
        if constexpr (std::is_same_v<std::decay_t<decltype(x)>, std::shared_ptr<options>>) {
          json o = json::object();
          if (x)
            for (const auto& [k, inner] : x->values) o[k] = value_json(inner);
          return o;
        } else {
          return x;
        }
      },
      v);
}

json option_json(const option_spec& s) {
  json o{{"name", s.name}, {"kind", kind_name(s.kind)}, {"required", !s.fallback}};
  if (s.fallback) o["default"] = value_json(*s.fallback);
  if (!s.choices.empty()) o["choices"] = s.choices;
  if (s.min > -1e299) o["min"] = s.min;
  if (s.max < 1e299) o["max"] = s.max;
  o["doc"] = s.doc;
  return o;
}

std::string wrapped(const std::string& text) {
  std::string s;
  std::size_t used = 0, at = 0;
  while (at < text.size()) {
    const auto end = std::min(text.find_first_of(" \n", at), text.size());
    const auto word = end - at;
    if (used > 0 && used + 1 + word > 100) s += "\n", used = 0;
    if (used > 0) s += " ", ++used;
    s += text.substr(at, word);
    used += word;
    if (end < text.size() && text[end] == '\n') s += "\n", used = 0;
    at = end + 1;
  }
  return s;
}

std::string option_table(const option_specs& specs) {
  if (specs.empty()) return "  (no options)\n";
  std::size_t name = 6, fallback = 7, range = 5;
  const auto fallback_of = [](const option_spec& s) {
    return s.fallback ? value_json(*s.fallback).dump() : std::string("required");
  };
  for (const auto& s : specs) {
    name = std::max(name, s.name.size());
    fallback = std::max(fallback, fallback_of(s).size());
    range = std::max(range, range_text(s).size());
  }
  std::string t =
      "  " + left("option", name + 2) + left("kind", 12) + left("default", fallback + 2) + left("range", range + 2) + "\n";
  for (const auto& s : specs)
    t += "  " + left(s.name, name + 2) + left(kind_name(s.kind), 12) + left(fallback_of(s), fallback + 2) +
         left(range_text(s), range + 2) + s.doc + "\n";
  return without_trailing_blanks(t);
}

std::string first_line(const std::string& doc) { return doc.substr(0, std::min(doc.find('\n'), doc.find(". "))); }

}  // namespace troupe
