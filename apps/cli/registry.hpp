// Prints the entries of a registry as text or JSON: a list of all, or one with its options.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/cli/output.hpp"
#include "ops/options.hpp"
#include "runtime/base/wording.hpp"

namespace CLI {
class App;
}

namespace troupe {

struct list_arguments {
  std::string name;  // empty: all
  std::vector<std::string> plugins;
};
// `what`: help text of NAME.
void list_options(CLI::App& c, list_arguments& a, const char* what);

nlohmann::ordered_json value_json(const option_value& v);
nlohmann::ordered_json option_json(const option_spec& s);
// One line for each option, with default, range and documentation; as wide as the screen.
std::string option_table(const option_specs& specs);
std::string number_text(double x);
std::string without_trailing_blanks(const std::string& text);
std::string page_text(const std::string& text);  // wrapped to the screen's width
// The beginning of the text that fits the line behind `indent` columns; "..." if it is cut.
std::string fitted(const std::string& text, std::size_t indent);
std::string first_line(const std::string& doc);

// Prints one entry of a registry by name, with `page`, or a list of all entries. `below` returns a
// second line for an entry of the list (empty: none).
template <class Registry, class Page, class Below>
int show(const Registry& entries, const std::string& name, const char* what, const output& out, Page&& page, Below&& below) {
  const auto names = entries.names();
  if (!name.empty()) {
    if (const auto* entry = entries.find(name)) return page(*entry, out);
    return out.wrong("command line", std::string("there is no ") + what + " " + in_quotes(name) + did_you_mean(name, names) +
                                         " (available: " + joined(names) + ")");
  }
  std::size_t wide = 4;
  for (const auto& n : names) wide = std::max(wide, n.size());
  for (const auto& n : names) {
    if (out.json())
      page(*entries.find(n), out);
    else
      out.text(left(n, wide + 2) + fitted(first_line(entries.find(n)->doc), wide + 2) + "\n");
    if (const std::string more = below(*entries.find(n)); !more.empty()) out.text(std::string(wide + 2, ' ') + more + "\n");
  }
  return exit_done;
}

}  // namespace troupe
