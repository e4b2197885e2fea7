// `troupe reference`: what programs know about themselves, from the tables that they use.
//   job|cluster   every key of a file, as markdown
//   events        the JSON schema of the events of a job
//   schema        the JSON schema of a job or cluster file, for editors
//   man           man pages
//   completion    scripts for shells
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/cli/completion.hpp"
#include "apps/cli/manual.hpp"
#include "apps/commands/commands.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/config/json_schema.hpp"
#include "runtime/node/config/plugin.hpp"
#include "runtime/node/config/reference.hpp"
#include "runtime/node/events/event_json.hpp"
#include "runtime/node/node_tables.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;

struct reference_arguments {
  std::string what, name, folder;
  std::vector<std::string> plugins;
};

struct reference_file {
  fs::path path;  // below a folder `share`
  std::string text;
};

std::vector<reference_file> manual_files() {
  std::vector<reference_file> all;
  for (const auto& p : manual()) {
    const auto section = std::to_string(p.section);
    all.push_back({fs::path("man") / ("man" + section) / (p.name + "." + section), p.text});
  }
  return all;
}

// bash reads the file of the command's name, fish too.
std::vector<reference_file> completion_files() {
  const auto bash = completion_script("bash"), fish = completion_script("fish");
  return {{"bash-completion/completions/troupe", bash},
          {"bash-completion/completions/trouped", bash},
          {"zsh/site-functions/_troupe", completion_script("zsh")},
          {"fish/vendor_completions.d/troupe.fish", fish},
          {"fish/vendor_completions.d/trouped.fish", fish}};
}

int write_files(const reference_arguments& a, const output& out) {
  for (const auto& f : a.what == "man" ? manual_files() : completion_files()) {
    const auto path = fs::path(a.folder) / f.path;
    std::error_code ec;
    fs::create_directories(path.parent_path(), ec);
    std::ofstream file(path, std::ios::binary);
    if (!(file << f.text).flush()) return out.failed(path.string(), "cannot be written");
  }
  return exit_done;
}

int print(const reference_arguments& a, const output& out, const std::string& member, const std::string& text) {
  if (out.json()) out.object({{"event", "reference"}, {"of", a.what}, {member, text}});
  out.text(text);
  return exit_done;
}

int unknown(const reference_arguments& a, const std::vector<std::string>& known, const output& out) {
  return out.wrong("command line", "there is no " + a.what + " of " + in_quotes(a.name) + did_you_mean(a.name, known) +
                                       " (available: " + joined(known) + ")");
}

int print_manual(const reference_arguments& a, const output& out) {
  const auto name = a.name.empty() ? "troupe" : a.name;
  for (const auto& p : manual())
    if (p.name == name || p.name == "troupe-" + name) return print(a, out, "roff", p.text);
  return unknown(a, manual_names(), out);
}

int print_completion(const reference_arguments& a, const output& out) {
  const auto& shells = completion_shells();
  if (std::find(shells.begin(), shells.end(), a.name) == shells.end()) return unknown(a, shells, out);
  return print(a, out, "script", completion_script(a.name));
}

int print_schema(const reference_arguments& a, const output& out, const nlohmann::ordered_json& schema) {
  if (out.json()) out.object({{"event", "reference"}, {"of", a.what}, {"schema", schema}});
  out.text(schema.dump(2) + "\n");
  return exit_done;
}

int run_reference(const reference_arguments& a, const output& out) {
  const auto& all = reference_names();
  if (std::find(all.begin(), all.end(), a.what) == all.end())
    return out.wrong("command line", "there is no reference for " + in_quotes(a.what) + did_you_mean(a.what, all) +
                                         " (available: " + joined(all) + ")");
  const bool named = a.what == "man" || a.what == "completion";
  if (!named && !a.folder.empty()) return out.wrong("command line", "--out is for `man` and `completion`");
  if (!named && a.what != "schema" && !a.name.empty())
    return out.wrong("command line", "NAME is for `man`, `completion` and `schema`");
  if (!a.folder.empty()) return write_files(a, out);
  if (named) return a.what == "man" ? print_manual(a, out) : print_completion(a, out);
  if (a.what == "events") return print_schema(a, out, event_schema());
  auto tables = node_tables();
  if (auto r = load_plugins(a.plugins, tables); !r) return out.wrong("--plugin", r.error().message);
  if (a.what == "schema") {
    if (a.name.empty() || a.name == "job") return print_schema(a, out, job_schema(tables));
    return a.name == "cluster" ? print_schema(a, out, cluster_schema()) : unknown(a, {"job", "cluster"}, out);
  }
  return print(a, out, "markdown", a.what == "job" ? job_reference(tables) : cluster_reference());
}

void add_options(CLI::App& c, reference_arguments& a) {
  c.add_option("WHAT", a.what,
               "job, cluster: every key of the file, as markdown\nevents: the JSON schema of the events of a job\n"
               "schema: the JSON schema of a job or cluster file, for editors\n"
               "man: a man page\ncompletion: the completion of a shell")
      ->required()
      ->option_text("(required)");
  c.add_option("NAME", a.name,
               "man: a command, job, cluster or trouped (default: troupe)\ncompletion: bash, zsh or fish\n"
               "schema: job (the default) or cluster")
      ->option_text(" ");
  c.add_option("--plugin", a.plugins, "Include the entries of this plugin; may be repeated")
      ->option_text("FILE")
      ->allow_extra_args(false);
  c.add_option("--out", a.folder, "man, completion: write all files below this folder, as below /usr/share")->option_text("DIR");
  json_option(c);
}

}  // namespace

const std::vector<std::string>& reference_names() {
  static const std::vector<std::string> all{"job", "cluster", "events", "schema", "man", "completion"};
  return all;
}

cli_command reference_command() {
  return make_command<reference_arguments>(
      "reference", "Print the keys of job and cluster files, schemas of files and events, man pages, or shell completion",
      "  troupe reference job\n  troupe reference job --plugin libswish.so > FILE.md\n  troupe reference man train | man -l -\n"
      "  source <(troupe reference completion bash)",
      add_options, run_reference);
}

}  // namespace troupe
