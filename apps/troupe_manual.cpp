#include "apps/troupe_manual.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

#include "apps/daemon_options.hpp"
#include "apps/troupe_command_line.hpp"
#include "apps/troupe_roff.hpp"
#include "runtime/base/version.hpp"
#include "runtime/node/config/reference.hpp"
#include "runtime/node/node_tables.hpp"

namespace troupe {
namespace {

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
