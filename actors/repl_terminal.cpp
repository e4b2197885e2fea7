// Where lines come from: a terminal (libedit: history, completion), `-c`, or stdin.
#include <histedit.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>

#include "actors/repl.hpp"

namespace troupe {
namespace {

using kind = repl_reply::kind;

// Returns false when no more lines are wanted; `code` is then the exit code.
bool answer(const repl_lines& lines, const std::string& line, bool stop_on_failure, int& code) {
  const auto begin = line.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos || line[begin] == '#') return true;
  const auto r = lines(line.substr(begin), nullptr);
  const bool bad = r.how == kind::failed || r.how == kind::usage;
  if (!r.text.empty()) {
    // An error in JSON is a reply like any other; in text it goes where errors go.
    auto* where = bad && r.text.front() != '{' ? stderr : stdout;
    std::fprintf(where, "%s\n", r.text.c_str());
    std::fflush(where);
  }
  if (r.how == kind::quit) return false;
  if (bad && stop_on_failure) code = r.how == kind::usage ? 2 : 1;
  return code == 0;
}

// "a; b": a ';' inside quotes is no end.
std::vector<std::string> split_commands(const std::string& text) {
  std::vector<std::string> out(1);
  bool quoted = false;
  for (char c : text) {
    if (c == '"') quoted = !quoted;
    if (c == ';' && !quoted)
      out.emplace_back();
    else
      out.back() += c;
  }
  return out;
}

int run_script(const repl_lines& lines) {
  int code = 0;
  std::string line;
  while (std::getline(std::cin, line) && answer(lines, line, true, code)) {
  }
  return code;
}

// The word before the cursor, completed as far as all candidates agree; a second tab shows them.
unsigned char complete(EditLine* editor, int) {
  const auto* l = ::el_line(editor);
  const std::string typed(l->buffer, static_cast<std::size_t>(l->cursor - l->buffer));
  const auto blank = typed.find_last_of(' ');
  const bool first = blank == std::string::npos;
  const auto word = first ? typed : typed.substr(blank + 1);
  std::vector<std::string> fits;
  if (first || typed.starts_with("help ")) {
    for (const auto& c : repl_commands())
      if (c.name.starts_with(word)) fits.push_back(c.name);
  } else if (typed.starts_with("set ")) {
    for (const char* key : {"train.dynamics.lr", "train.dynamics.decay"})
      if (std::string(key).starts_with(word)) fits.emplace_back(key);
  }
  if (fits.empty()) return CC_REFRESH_BEEP;
  auto common = fits.front();
  for (const auto& f : fits)
    common.resize(static_cast<std::size_t>(std::mismatch(common.begin(), common.end(), f.begin(), f.end()).first - common.begin()));
  auto more = common.substr(word.size());
  if (fits.size() == 1) more += ' ';
  if (!more.empty()) return ::el_insertstr(editor, more.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
  std::printf("\n");
  for (const auto& f : fits) std::printf("%s  ", f.c_str());
  std::printf("\n");
  std::fflush(stdout);
  return CC_REDISPLAY;
}

char* prompt_of(EditLine* editor) {
  void* p = nullptr;
  ::el_get(editor, EL_CLIENTDATA, &p);
  return static_cast<char*>(p);
}

std::string history_file() {
  const char* home = std::getenv("HOME");
  return home ? std::string(home) + "/.troupe_history" : std::string();
}

int run_terminal(const repl_lines& lines, const repl_options& o) {
  std::string prompt = o.prompt;
  std::unique_ptr<EditLine, void (*)(EditLine*)> editor(::el_init("troupe", stdin, stdout, stderr), ::el_end);
  std::unique_ptr<History, void (*)(History*)> history(::history_init(), ::history_end);
  if (!editor || !history) return run_script(lines);
  HistEvent event;
  ::history(history.get(), &event, H_SETSIZE, 500);
  ::history(history.get(), &event, H_SETUNIQUE, 1);
  const auto file = history_file();
  if (!file.empty()) ::history(history.get(), &event, H_LOAD, file.c_str());
  ::el_set(editor.get(), EL_CLIENTDATA, prompt.data());
  ::el_set(editor.get(), EL_PROMPT, prompt_of);
  ::el_set(editor.get(), EL_EDITOR, "emacs");
  ::el_set(editor.get(), EL_SIGNAL, 1);
  ::el_set(editor.get(), EL_HIST, ::history, history.get());
  ::el_set(editor.get(), EL_ADDFN, "troupe-complete", "complete a command", complete);
  ::el_set(editor.get(), EL_BIND, "^I", "troupe-complete", nullptr);
  ::el_source(editor.get(), nullptr);
  int code = 0, count = 0;
  while (const char* typed = ::el_gets(editor.get(), &count)) {
    std::string line(typed, static_cast<std::size_t>(std::max(0, count)));
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
    if (!line.empty()) ::history(history.get(), &event, H_ENTER, line.c_str());
    if (!answer(lines, line, false, code)) break;
  }
  if (!file.empty()) ::history(history.get(), &event, H_SAVE, file.c_str());
  return code;
}

}  // namespace

int run_repl(const repl_lines& lines, const repl_options& o) {
  int code = 0;
  if (o.has_commands) {
    for (const auto& c : split_commands(o.commands))
      if (!answer(lines, c, true, code)) break;
    return code;
  }
  if (::isatty(STDIN_FILENO) != 0 && !o.json) return run_terminal(lines, o);
  return run_script(lines);
}

}  // namespace troupe
