#include "apps/cli/completion.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "apps/cli/command_line.hpp"
#include "apps/cli/manual.hpp"
#include "apps/commands/commands.hpp"
#include "apps/daemon_options.hpp"
#include "runtime/access/roles.hpp"
#include "runtime/node/config/job_keys.hpp"
#include "runtime/node/config/key_places.hpp"
#include "runtime/node/node_tables.hpp"
#include "runtime/node/runs/run_info.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using word_list = std::vector<std::string>;

struct candidate {
  std::string word, about = {};
};
using candidates = std::vector<candidate>;

word_list parts_of(const std::string& text, const std::string& by) {
  word_list all;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find(by, at), text.size());
    all.push_back(text.substr(at, end - at));
    at = end + by.size();
  }
  return all;
}

candidates candidates_of(const word_list& list) {
  candidates all;
  for (const auto& w : list) all.push_back({w});
  return all;
}

// What the command line has before the word to complete.
struct typed_before {
  const CLI::App* command = nullptr;
  word_list positionals = {};
  const CLI::Option* option = nullptr;  // the word to complete is its value; null: it is none
  bool options_end = false;             // "--" was given
  std::string run_dir = {};             // value of --run-dir
  std::string word = {};                // the word to complete; of `--option=VALUE` the value
};

using completer = candidates (*)(const typed_before&);

candidates any_files(const typed_before&) { return {{":files"}}; }
candidates toml_files(const typed_before&) { return {{":files .toml"}}; }
candidates plugin_files(const typed_before&) { return {{":files .so"}}; }
candidates any_folders(const typed_before&) { return {{":folders"}}; }
candidates layer_names(const typed_before&) { return candidates_of(node_tables().layers.names()); }
candidates mode_names(const typed_before&) { return candidates_of(node_tables().modes.names()); }
candidates templates(const typed_before&) { return candidates_of(job_template_names()); }
candidates references(const typed_before&) { return candidates_of(reference_names()); }

candidates client_roles(const typed_before&) { return candidates_of(parts_of(client_roles_text(), ", ")); }

// The values of a key of a job file: the words that it accepts, or the entries that it may name.
word_list values_of_key(const std::string& path) {
  const auto all = node_tables();
  const std::pair<const char*, word_list> named[] = {{"data.source", all.sources.names()},
                                                     {"train.sampler.kind", all.samplers.names()},
                                                     {"train.dynamics.rule", all.rules.names()},
                                                     {"train.dynamics.schedule.kind", all.schedules.names()},
                                                     {"train.sync.mode", all.modes.names()},
                                                     {"train.sync.when.kind", all.conditions.names()},
                                                     {"train.exchange.reducer", all.reducers.names()},
                                                     {"eval.sampler.kind", all.eval_samplers.names()}};
  for (const auto& [key, names] : named)
    if (path == key) return names;
  for (const auto& t : job_tables())
    for (const auto& k : t.entries)
      if (t.name.size() > 2 && t.name.substr(1, t.name.size() - 2) + "." + k.name == path)
        return k.kind == key_kind::flag ? word_list{"true", "false"} : k.words;
  return {};
}

candidates job_keys(const typed_before& t) {
  if (const auto equals = t.word.find('='); equals != std::string::npos) {
    auto values = values_of_key(t.word.substr(0, equals));
    for (auto& v : values) v.insert(0, t.word.substr(0, equals + 1));
    return candidates_of(values);
  }
  auto keys = job_key_paths(node_tables());  // a key that several entries of a table have is there several times
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  for (auto& key : keys) key += "=";
  return candidates_of(keys);
}

candidates run_names(const typed_before& t) {
  candidates all{{"last", "the newest run"}};
  const auto folder = t.run_dir.empty() ? default_runs_folder() : fs::path(t.run_dir);
  if (folder.empty()) return all;
  auto found = run_folders(folder);
  std::reverse(found.begin(), found.end());
  for (const auto& f : found) all.push_back({f.filename().string()});
  return all;
}

candidates runs_or_folders(const typed_before& t) {
  auto all = run_names(t);
  all.push_back({":folders"});
  return all;
}

candidates runs_or_files(const typed_before& t) {
  auto all = run_names(t);
  all.push_back({":files"});
  return all;
}

candidates jobs_or_runs(const typed_before& t) {
  auto all = run_names(t);
  all.push_back({":files .toml"});
  return all;
}

candidates actions_of_runs(const typed_before& t) {
  if (!t.positionals.empty()) return runs_or_folders(t);
  return {{"show", "all of a run"},
          {"compare", "results side by side"},
          {"diff", "keys of the job files that differ"},
          {"rm", "remove runs with their weights"}};
}

// The pages that `troupe reference man` has, and the shells of `troupe reference completion`.
candidates reference_details(const typed_before& t) {
  if (t.positionals.empty()) return {};
  if (t.positionals[0] == "completion") return candidates_of(completion_shells());
  return t.positionals[0] == "man" ? candidates_of(manual_names()) : candidates{};
}

// Completion of one value. `command` empty: of every command. `value`: the name of an option or
// positional, or the text that --help shows for its value.
struct value_row {
  const char* command;
  const char* value;
  completer run;
};
constexpr value_row value_rows[] = {
    {"layers", "NAME", layer_names},
    {"modes", "NAME", mode_names},
    {"new", "--from", templates},
    {"new", "--data", any_files},
    {"certs", "--role", client_roles},
    {"reference", "WHAT", references},
    {"reference", "NAME", reference_details},
    {"predict", "INPUT", any_files},
    {"check", "FILE", jobs_or_runs},
    {"unroll", "FILE", runs_or_files},
    {"serve", "NET", runs_or_files},
    {"check-layer", "PLUGIN", plugin_files},
    {"repl", "TARGET", runs_or_folders},
    {"runs", "ACTION", actions_of_runs},
    {"sim", "--replay", any_folders},
    {"", "--cluster", toml_files},
    {"", "--network", toml_files},
    {"", "--faults", toml_files},
    {"", "--plugin", plugin_files},
    {"", "--set", job_keys},
    {"", "--run-dir", any_folders},
    {"", "--resume", runs_or_files},
    {"", "--weights", runs_or_files},
    {"", "JOB", jobs_or_runs},
    {"", "RUN", runs_or_folders},
    {"", "DIR", any_folders},
    {"", "FILE", any_files},
};

// The words of CLI::IsMember, which it shows as "TEXT:{real,none}".
word_list members_of(const CLI::Option& o) {
  const auto type = o.get_type_name();
  const auto open = type.find('{'), close = type.rfind('}');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  return parts_of(type.substr(open + 1, close - open - 1), ",");
}

std::string first_word(const std::string& text) { return text.substr(0, text.find_first_of(" .")); }

candidates values_of(const CLI::Option& o, const typed_before& t) {
  const auto name = o.nonpositional() ? o.get_name() : o.get_name(true);
  const auto shown = first_word(o.get_option_text());
  const auto command = t.command->get_name();
  for (const auto& row : value_rows)
    if ((*row.command == '\0' || command == row.command) && (name == row.value || shown == row.value)) return row.run(t);
  return candidates_of(members_of(o));
}

bool takes_value(const CLI::Option& o) { return o.get_type_size() != 0 && o.get_expected_max() > 0; }

bool looks_like_option(const std::string& word) { return word.size() > 1 && word[0] == '-'; }

typed_before read_before(const CLI::App& command, const word_list& list) {
  typed_before t{&command};
  for (std::size_t i = 0; i < list.size(); ++i) {
    t.option = nullptr;
    const auto& w = list[i];
    if (t.options_end || !looks_like_option(w)) {
      t.positionals.push_back(w);
      continue;
    }
    t.options_end = w == "--";
    const auto equals = w.find('=');
    const auto* o = command.get_option_no_throw(w.substr(0, equals));
    if (!o || !takes_value(*o)) continue;
    if (equals == std::string::npos) t.option = o;
    const bool has_next = i + 1 < list.size();
    if (o->check_lname("run-dir") && (equals != std::string::npos || has_next))
      t.run_dir = equals != std::string::npos ? w.substr(equals + 1) : list[i + 1];
    if (t.option && has_next) ++i, t.option = nullptr;
  }
  return t;
}

std::string first_line_of(const std::string& text) { return text.substr(0, text.find('\n')); }

candidates options_of(const CLI::App& command) {
  candidates all;
  for (const auto* o : command.get_options())
    for (const auto& n : o->get_lnames())
      if (!o->get_group().empty()) all.push_back({"--" + n, first_line_of(o->get_description())});
  return all;
}

candidates positional_values(const typed_before& t) {
  std::size_t at = 0;
  for (const auto* o : t.command->get_options([](const CLI::Option* x) { return x->get_positional(); })) {
    const auto most = static_cast<std::size_t>(std::max(1, o->get_expected_max()));
    if (t.positionals.size() < at + most) return values_of(*o, t);
    at += most;
  }
  return {};
}

// The candidates for the value of `--name=`, as whole words.
candidates with_option(const std::string& option, candidates values) {
  for (auto& c : values)
    if (!c.word.starts_with(":")) c.word = option + "=" + c.word;
  return values;
}

candidates find(const CLI::App& command, const word_list& before, const std::string& word) {
  auto t = read_before(command, before);
  t.word = word;
  if (t.option) return values_of(*t.option, t);
  if (t.options_end || !word.starts_with("-")) return positional_values(t);
  const auto equals = word.find('=');
  if (equals == std::string::npos) return options_of(command);
  const auto option = word.substr(0, equals);
  const auto* o = command.get_option_no_throw(option);
  t.word = word.substr(equals + 1);
  return o ? with_option(option, values_of(*o, t)) : candidates{};
}

candidates commands_of(const CLI::App& app) {
  candidates all;
  for (const auto* c : app.get_subcommands({})) all.push_back({c->get_name(), first_line_of(c->get_description())});
  return all;
}

candidates find(const CLI::App& app, const word_list& list) {
  const word_list before(list.begin() + 1, list.end() - 1);
  if (app.get_subcommands({}).empty()) return find(app, before, list.back());
  const auto at = std::find_if(before.begin(), before.end(), [](const auto& w) { return !looks_like_option(w); });
  if (at == before.end()) return list.back().starts_with("-") ? options_of(app) : commands_of(app);
  for (const auto* command : app.get_subcommands({}))
    if (command->get_name() == *at) return find(*command, {at + 1, before.end()}, list.back());
  return {};
}

}  // namespace

int complete(const word_list& list) {
  if (list.size() < 2) return exit_wrong;
  command_run ignored;
  daemon_options daemon;
  CLI::App trouped(daemon_about, "trouped");
  add_daemon_options(trouped, daemon);
  const auto whole = make_command_line(ignored);
  const bool of_daemon = fs::path(list[0]).filename() == "trouped";
  std::string text;
  for (const auto& c : find(of_daemon ? trouped : *whole, list))
    if (c.word.starts_with(":") || c.word.starts_with(list.back())) text += c.word + (c.about.empty() ? "" : "\t" + c.about) + "\n";
  output(false).text(text);
  return exit_done;
}

namespace {

// Bash also splits words at '=' and ':', so the script splits the line itself, and removes from
// each candidate what readline will not replace.
constexpr const char* bash_script = R"(# Completion of troupe and trouped in bash. Made by `troupe reference completion bash`.
_troupe() {
  local line=${COMP_LINE:0:COMP_POINT} words word kept entry
  read -ra words <<<"$line"
  [[ $line != *[[:blank:]] ]] || words+=("")
  word=${words[-1]} kept=
  [[ $COMP_WORDBREAKS != *=* || $word != *=* ]] || kept=${word%"${word##*=}"}
  [[ $COMP_WORDBREAKS != *:* || ${word#"$kept"} != *:* ]] || kept=${word%"${word##*:}"}
  COMPREPLY=()
  while IFS= read -r entry; do
    case $entry in
      :files*)
        compopt -o filenames 2>/dev/null
        while IFS= read -r entry; do COMPREPLY+=("$entry"); done < <(
          suffix=${entry#:files} suffix=${suffix# }
          word=${word#"$kept"}
          if [[ -n $suffix ]]; then compgen -f -X "!*$suffix" -- "$word"; compgen -d -- "$word"; else compgen -f -- "$word"; fi)
        ;;
      :folders)
        compopt -o filenames 2>/dev/null
        while IFS= read -r entry; do COMPREPLY+=("$entry"); done < <(compgen -d -- "${word#"$kept"}")
        ;;
      *)
        entry=${entry%%$'\t'*}
        [[ $entry != *= ]] || compopt -o nospace 2>/dev/null
        COMPREPLY+=("${entry#"$kept"}")
        ;;
    esac
  done < <("${words[0]%d}" __complete "${words[@]}" 2>/dev/null)
}
complete -F _troupe troupe trouped
)";

constexpr const char* zsh_script = R"(#compdef troupe trouped
# Completion of troupe and trouped in zsh. Made by `troupe reference completion zsh`.
local entry word
local -a plain open
for entry in "${(@f)$(${words[1]%d} __complete "${(@Q)words[1,CURRENT]}" 2>/dev/null)}"; do
  case $entry in
    '') ;;
    ':files '*) _files -g "*${entry#:files }" ;;
    :files) _files ;;
    :folders) _files -/ ;;
    *)
      word=${${entry%%$'\t'*}//:/\\:}
      [[ $entry == *$'\t'* ]] && word+=":${entry#*$'\t'}"
      if [[ $entry == *= ]]; then open+=("$word"); else plain+=("$word"); fi
      ;;
  esac
done
(( $#plain )) && _describe 'troupe' plain
(( $#open )) && _describe 'key' open -S ''
)";

constexpr const char* fish_script = R"(# Completion of troupe and trouped in fish. Made by `troupe reference completion fish`.
function __troupe_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l program (string replace -r 'd$' '' -- $words[1])
    for entry in ($program __complete $words 2>/dev/null)
        switch $entry
            case ':files *'
                __fish_complete_suffix (string sub -s 8 -- $entry)
            case ':files'
                __fish_complete_path (commandline -ct)
            case ':folders'
                __fish_complete_directories (commandline -ct)
            case '*'
                echo $entry
        end
    end
end
complete -c troupe -f -a '(__troupe_complete)'
complete -c trouped -f -a '(__troupe_complete)'
)";

}  // namespace

const std::vector<std::string>& completion_shells() {
  static const std::vector<std::string> all{"bash", "zsh", "fish"};
  return all;
}

std::string completion_script(const std::string& shell) {
  if (shell == "bash") return bash_script;
  if (shell == "zsh") return zsh_script;
  return fish_script;
}

}  // namespace troupe
