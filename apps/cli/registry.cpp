#include "apps/cli/registry.hpp"

#include <CLI/CLI.hpp>

#include "apps/cli/command.hpp"
#include "apps/cli/screen.hpp"

namespace troupe {

using entry_json = nlohmann::ordered_json;

std::string number_text(double x) {
  return entry_json(x == static_cast<double>(static_cast<std::int64_t>(x)) ? entry_json(static_cast<std::int64_t>(x))
                                                                           : entry_json(x))
      .dump();
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
  const bool number = s.kind == option_kind::integer || s.kind == option_kind::real || s.kind == option_kind::reals;
  if (!s.choices.empty() && !number) return joined(s.choices, " | ");
  const bool low = s.min > -1e299, high = s.max < 1e8;  // larger limits are placeholders for "no limit"
  std::string text;
  if (low && high)
    text = number_text(s.min) + " to " + number_text(s.max);
  else if (low)
    text = "at least " + number_text(s.min);
  else if (high)
    text = "at most " + number_text(s.max);
  if (s.by_axis) text += text.empty() ? "integer or pair" : ", or pair";
  for (const auto& word : s.choices)
    text += (text.empty() ? "" : ", or ") + entry_json(word).dump();  // words allowed in addition to numbers
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

entry_json value_json(const option_value& v) {
  return std::visit(
      [](const auto& x) -> entry_json {
        if constexpr (std::is_same_v<std::decay_t<decltype(x)>, std::shared_ptr<options>>) {
          entry_json o = entry_json::object();
          if (x)
            for (const auto& [k, inner] : x->values) o[k] = value_json(inner);
          return o;
        } else {
          return x;
        }
      },
      v);
}

entry_json option_json(const option_spec& s) {
  entry_json o{{"name", s.name}, {"kind", kind_name(s.kind)}, {"required", !s.fallback}};
  if (s.fallback) o["default"] = value_json(*s.fallback);
  if (!s.choices.empty()) o["choices"] = s.choices;
  if (s.by_axis) o["by_axis"] = true;
  if (s.min > -1e299) o["min"] = s.min;
  if (s.max < 1e299) o["max"] = s.max;
  o["doc"] = s.doc;
  return o;
}

std::string page_text(const std::string& text) { return wrapped(text, screen::columns()); }

namespace {

// A list of more words than this is printed below the option's description.
constexpr std::size_t words_in_line = 24;

// Words that an option accepts, if they are too long for the column of ranges. Words that an
// earlier option accepts too are not repeated.
std::string words_below(const option_spec& s, const option_specs& all) {
  if (range_text(s).size() <= words_in_line || s.choices.empty()) return {};
  for (const auto& other : all) {
    if (&other == &s) break;
    if (other.choices.size() < 4) continue;
    std::vector<std::string> more;
    bool has_all = true;
    for (const auto& w : other.choices) has_all = has_all && std::find(s.choices.begin(), s.choices.end(), w) != s.choices.end();
    for (const auto& w : s.choices)
      if (std::find(other.choices.begin(), other.choices.end(), w) == other.choices.end()) more.push_back(w);
    if (has_all) return joined(more) + (more.empty() ? "one of those of " : ", or one of those of ") + other.name;
  }
  return "one of " + joined(s.choices);
}

}  // namespace

std::string option_table(const option_specs& specs) {
  if (specs.empty()) return "no options\n";
  const auto fallback_of = [](const option_spec& s) {
    return s.fallback ? value_json(*s.fallback).dump() : std::string("required");
  };
  const auto range_of = [&](const option_spec& s) {
    if (!words_below(s, specs).empty()) return std::string("a word");
    const auto range = range_text(s);
    return range.empty() ? std::string(kind_name(s.kind)) : range;
  };
  std::size_t name = 6, fallback = 7, range = 5;
  for (const auto& s : specs) {
    name = std::max(name, s.name.size());
    fallback = std::max(fallback, fallback_of(s).size());
    range = std::max(range, range_of(s).size());
  }
  const auto before = name + fallback + range + 6;
  const auto columns = std::max(screen::columns(), before + 24);
  std::string t = left("option", name + 2) + left("default", fallback + 2) + "range\n";
  for (const auto& s : specs) {
    auto doc = s.doc;
    if (const auto words = words_below(s, specs); !words.empty()) doc += (doc.empty() ? "" : "; ") + words;
    t += left(s.name, name + 2) + left(fallback_of(s), fallback + 2) + left(range_of(s), range + 2);
    std::string body = wrapped(doc, columns - before);
    for (std::size_t at = 0; (at = body.find('\n', at)) != std::string::npos; at += before + 1) body.insert(at + 1, before, ' ');
    t += body + "\n";
  }
  return without_trailing_blanks(t);
}

std::string fitted(const std::string& text, std::size_t indent) {
  const auto columns = screen::columns();
  if (width_of(text) + indent <= columns || columns < indent + 8) return text;
  auto s = cut_to(text, columns - indent - 3);
  if (const auto blank = s.rfind(' '); blank != std::string::npos && blank + 16 > s.size()) s.resize(blank);
  return s + "...";
}

std::string first_line(const std::string& doc) { return doc.substr(0, std::min(doc.find('\n'), doc.find(". "))); }

}  // namespace troupe
