#include "apps/cli/manual.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <sstream>
#include <string>
#include <vector>

#include "apps/cli/command_line.hpp"
#include "apps/daemon_options.hpp"
#include "runtime/base/version.hpp"
#include "runtime/node/config/reference.hpp"
#include "runtime/node/node_tables.hpp"

namespace troupe {
namespace {

// --- roff with the macros of man(7)

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

// A text within a line: backslashes and hyphens are escaped, and `code` is bold.
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

// A text of several lines as filled text. A line break stays behind a short line, and before a line
// such as "mlp: a perceptron".
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

// Lines as they are, indented: examples.
std::string roff_example(const std::string& text) {
  std::string s = ".PP\n.RS 4\n.nf\n";
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) s += escaped(line) + "\n";
  return s + ".fi\n.RE\n";
}

// The pages of runtime/node/config/reference.hpp: headings, paragraphs, fenced text, and tables of
// four columns, whose rows become entries.
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

std::string title(const std::string& name, int section) {
  std::string upper = name;
  std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return ".\\\" Made by `troupe reference man`.\n.TH " + roff_text(upper) + " " + std::to_string(section) + " \"\" \"troupe " +
         troupe_version + "\" \"Troupe\"\n";
}

// The first sentence without its dot, as NAME takes it.
std::string name_section(const std::string& name, const std::string& about) {
  const auto line = about.substr(0, about.find('\n'));
  return ".SH NAME\n" + roff_text(name) + " \\- " + roff_text(line.ends_with(".") ? line.substr(0, line.size() - 1) : line) + "\n";
}

std::string see_also(const std::vector<std::string>& pages) {
  std::string s = ".SH SEE ALSO\n";
  for (const auto& p : pages) {
    const auto bracket = p.find('(');
    s += ".BR " + roff_text(p.substr(0, bracket)) + " " + p.substr(bracket) + (&p == &pages.back() ? "\n" : ",\n");
  }
  return s;
}

std::string upright_placeholder(const CLI::Option& o) {
  auto text = o.get_option_text();
  if (const auto required = text.find("(required)"); required != std::string::npos) text.erase(required);
  while (text.ends_with(" ")) text.pop_back();
  return text;
}

std::string option_name(const CLI::Option& o) {
  std::string s;
  for (const auto& n : o.get_snames()) s += (s.empty() ? "" : ", ") + std::string("\\fB") + roff_text("-" + n) + "\\fR";
  for (const auto& n : o.get_lnames()) s += (s.empty() ? "" : ", ") + std::string("\\fB") + roff_text("--" + n) + "\\fR";
  const auto value = o.get_type_size() != 0 && o.get_expected_max() > 0 ? upright_placeholder(o) : "";
  return value.empty() ? s : s + " \\fI" + roff_text(value) + "\\fR";
}

std::string entries(const CLI::App& c, bool positionals) {
  std::string s;
  for (const auto* o : c.get_options()) {
    if (o->get_positional() != positionals || o->get_group().empty()) continue;
    s += ".TP\n" + (positionals ? "\\fI" + roff_text(o->get_name(true)) + "\\fR" : option_name(*o)) + "\n" +
         roff_lines(o->get_description()) + (o->get_required() ? ".br\nRequired.\n" : "");
  }
  return s;
}

std::string synopsis(const CLI::App& c, const std::string& command) {
  std::string s = ".SH SYNOPSIS\n.B " + roff_text(command) + "\n";
  std::string words = "[\\fIOPTION\\fR]...";
  for (const auto* o : c.get_options()) {
    if (o->nonpositional() && o->get_required()) words += " " + option_name(*o);
    if (!o->get_positional()) continue;
    const auto dots = o->get_expected_max() > 1 ? "..." : "";
    const auto name = "\\fI" + roff_text(o->get_name(true)) + "\\fR" + dots;
    words += " " + (o->get_required() ? name : "[" + name + "]");
  }
  return s + words + "\n";
}

// The footer of --help: examples, which are indented, and notes behind them.
std::string footer_sections(const std::string& footer) {
  constexpr std::string_view head = "Examples:\n";
  if (!footer.starts_with(head)) return footer.empty() ? footer : ".SH NOTES\n" + roff_lines(footer);
  std::string examples, notes;
  for (std::size_t at = head.size(); at < footer.size();) {
    const auto end = std::min(footer.find('\n', at), footer.size());
    const auto line = footer.substr(at, end - at);
    (line.starts_with("  ") ? examples : notes) += (line.starts_with("  ") ? line.substr(2) : line) + "\n";
    at = end + 1;
  }
  return ".SH EXAMPLES\n" + roff_example(examples) + (notes.empty() ? "" : ".SH NOTES\n" + roff_lines(notes));
}

std::string command_text(const CLI::App& c, const std::string& name, const std::string& command, int section,
                         const std::vector<std::string>& others) {
  const auto positionals = entries(c, true);
  return title(name, section) + name_section(name, c.get_description()) + synopsis(c, command) + ".SH DESCRIPTION\n" +
         roff_lines(c.get_description() + (c.get_description().ends_with(".") ? "" : ".")) +
         (positionals.empty() ? "" : ".SH ARGUMENTS\n" + positionals) + ".SH OPTIONS\n" + entries(c, false) +
         footer_sections(c.get_footer()) + see_also(others);
}

// troupe(1): the commands by group.
std::string overview(const CLI::App& app) {
  std::string s = title("troupe", 1) + name_section("troupe", "train neural networks with actors") +
                  ".SH SYNOPSIS\n.B troupe\n\\fICOMMAND\\fR [\\fIOPTION\\fR]...\n.SH DESCRIPTION\n";
  const auto about = app.get_description();
  const auto start = about.find("\n  ");
  s += roff_lines(about.substr(0, start)) + roff_example(about.substr(start + 1)) + ".SH COMMANDS\n";
  std::string group;
  for (const auto* c : app.get_subcommands({})) {
    if (c->get_group() != group) s += ".SS \"" + roff_text(c->get_group()) + "\"\n";
    group = c->get_group();
    s += ".TP\n.BR " + roff_text("troupe-" + c->get_name()) + " (1)\n" + roff_lines(c->get_description());
  }
  s += ".SH OPTIONS\n" + entries(app, false) +
       ".SH ENVIRONMENT\n.TP\n\\fBTROUPE_RUNS\\fR\nFolder of runs, or \\fBoff\\fR: record no run. Default: runs.\n"
       ".TP\n\\fBNO_COLOR\\fR\nSwitches colours off.\n.SH EXIT STATUS\n.TP\n0\ndone\n.TP\n1\n"
       "failed while running, or preempted: stopped with a checkpoint\n.TP\n2\nwrong usage or configuration\n";
  return s + footer_sections("With --json every command writes one JSON object per line to stdout, and nothing else.") +
         see_also({"troupe-job(5)", "troupe-cluster(5)", "trouped(8)"});
}

std::string file_text(const std::string& name, const std::string& about, const std::string& markdown,
                      const std::vector<std::string>& others) {
  const auto body = markdown.substr(markdown.find('\n') + 1);  // the first line is the page's heading
  return title(name, 5) + name_section(name, about) + ".SH DESCRIPTION\n" + roff_of_reference(body) + see_also(others);
}

}  // namespace

std::vector<manual_page> manual() {
  command_run ignored;
  const auto app = make_command_line(ignored);
  std::vector<manual_page> pages{{"troupe", 1, overview(*app)}};
  for (const auto* c : app->get_subcommands({})) {
    const auto name = "troupe-" + c->get_name();
    pages.push_back({name, 1, command_text(*c, name, "troupe " + c->get_name(), 1, {"troupe(1)", "troupe-job(5)"})});
  }
  pages.push_back({"troupe-job", 5,
                   file_text("troupe-job", "the job file of troupe, in TOML", job_reference(node_tables()),
                             {"troupe(1)", "troupe-train(1)", "troupe-check(1)"})});
  pages.push_back({"troupe-cluster", 5,
                   file_text("troupe-cluster", "the cluster file of troupe, in TOML", cluster_reference(),
                             {"trouped(8)", "troupe-init-cluster(1)"})});
  daemon_options o;
  CLI::App daemon(daemon_about, "trouped");
  add_daemon_options(daemon, o);
  pages.push_back({"trouped", 8, command_text(daemon, "trouped", "trouped", 8, {"troupe(1)", "troupe-cluster(5)"})});
  return pages;
}

std::vector<std::string> manual_names() {
  std::vector<std::string> names;
  for (const auto& p : manual()) names.push_back(p.name.starts_with("troupe-") ? p.name.substr(7) : p.name);
  return names;
}

}  // namespace troupe
