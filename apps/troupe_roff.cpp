#include "apps/troupe_roff.hpp"

#include <sstream>
#include <vector>

namespace troupe {
namespace {

// Escapes one line. A line must not begin with a control character.
std::string escaped(const std::string& line) {
  std::string s;
  for (const char c : line) {
    if (c == '\\')
      s += "\\e";
    else if (c == '-')
      s += "\\-";
    else
      s += c;
  }
  return s.starts_with(".") || s.starts_with("'") ? "\\&" + s : s;
}

// [text](target) as text.
std::string without_links(std::string s) {
  for (std::size_t open = 0; (open = s.find('[', open)) != std::string::npos;) {
    const auto middle = s.find("](", open);
    const auto close = middle == std::string::npos ? middle : s.find(')', middle);
    if (close == std::string::npos || s.find('[', open + 1) < middle || s.find_first_of("`\n", open) < middle) {
      ++open;
      continue;
    }
    s = s.substr(0, open) + s.substr(open + 1, middle - open - 1) + s.substr(close + 1);
  }
  return s;
}

// The cells of a table's row; "\|" is a bar.
std::vector<std::string> row_cells(const std::string& row) {
  std::vector<std::string> cells(1);
  for (std::size_t i = 1; i < row.size(); ++i) {
    if (row[i] == '\\' && i + 1 < row.size() && row[i + 1] == '|')
      cells.back() += row[++i];
    else if (row[i] == '|')
      cells.emplace_back();
    else
      cells.back() += row[i];
  }
  cells.pop_back();  // behind the last bar
  for (auto& c : cells) {
    const auto begin = c.find_first_not_of(' ');
    c = begin == std::string::npos ? "" : c.substr(begin, c.find_last_not_of(' ') - begin + 1);
  }
  return cells;
}

// "Default: 4." and "Required."
std::string default_text(const std::string& fallback) {
  if (fallback.empty()) return {};
  return fallback == "required" ? "Required." : "Default: " + fallback + ".";
}

// A row of `key | value | default | description`.
std::string entry_of(const std::string& row) {
  const auto cells = row_cells(row);
  if (cells.size() != 4 || cells[0] == "key" || cells[0].starts_with("-")) return {};
  std::string s = ".TP\n" + roff_text(cells[0]) + "\n";
  if (!cells[3].empty()) s += roff_lines(cells[3]) + ".br\n";
  s += roff_lines("Value: " + cells[1] + ".");
  return s + roff_lines(default_text(cells[2]));
}

}  // namespace

std::string roff_text(const std::string& text) {
  std::string s;
  bool code = false;
  std::size_t at = 0;
  const auto line = without_links(text);
  while (at <= line.size()) {
    const auto end = line.find('`', at);
    const auto part = line.substr(at, end == std::string::npos ? end : end - at);
    const auto escaped_part = at == 0 ? escaped(part) : escaped("x" + part).substr(1);
    s += code ? "\\fB" + escaped_part + "\\fR" : escaped_part;
    if (end == std::string::npos) break;
    code = !code;
    at = end + 1;
  }
  return s;
}

std::string roff_lines(const std::string& text) {
  std::string s, before;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line); before = line) {
    if (line.empty()) continue;
    const auto word = line.substr(0, line.find(' '));
    const bool begins_entry = word.ends_with(":") && word.find('"') == std::string::npos;
    if (!s.empty() && (begins_entry || before.size() < 60)) s += ".br\n";
    s += roff_text(line) + "\n";
  }
  return s;
}

std::string roff_example(const std::string& text) {
  std::string s = ".PP\n.RS 4\n.nf\n";
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) s += escaped(line) + "\n";
  return s + ".fi\n.RE\n";
}

std::string roff_of_reference(const std::string& markdown) {
  std::string s, paragraph, fenced;
  bool in_fence = false;
  const auto end_paragraph = [&] {
    if (!paragraph.empty()) s += ".PP\n" + roff_text(paragraph) + "\n";
    paragraph.clear();
  };
  std::istringstream lines(markdown);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      end_paragraph();
      if (in_fence) s += fenced.find("\n ") == std::string::npos ? ".PP\n" + roff_lines(fenced) : roff_example(fenced);
      fenced.clear();
      in_fence = !in_fence;
    } else if (in_fence) {
      fenced += line + "\n";
    } else if (line.starts_with("#")) {
      end_paragraph();
      const auto title = line.substr(line.find_first_not_of("# "));
      s += (line.starts_with("###") ? ".SS \"" : ".SH \"") + roff_text(title) + "\"\n";
    } else if (line.starts_with("|")) {
      end_paragraph();
      s += entry_of(line);
    } else if (line.empty()) {
      end_paragraph();
    } else {
      paragraph += (paragraph.empty() ? "" : " ") + line;
    }
  }
  end_paragraph();
  return s;
}

}  // namespace troupe
