// Where lines come from: a terminal (libedit: history, completion), `-c`, or stdin.
#include <histedit.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <sstream>
#include <utility>

#include "actors/repl/command.hpp"
#include "actors/repl/complete.hpp"

namespace troupe {
namespace {

using kind = repl_reply::kind;

// Between two askings of one line: a while, or until somebody types a line where `typed` ends that.
bool wait_a_little(bool typed) {
  pollfd in{STDIN_FILENO, POLLIN, 0};
  if (::poll(&in, typed ? 1 : 0, static_cast<int>(repl_ask_every.count())) <= 0 || !typed) return true;
  char swallowed[4096];
  return ::read(STDIN_FILENO, swallowed, sizeof swallowed) < 0;
}

void print(const repl_reply& r) {
  // An error in JSON is a reply like any other; in text it goes where errors go.
  const bool bad = r.how == kind::failed || r.how == kind::usage;
  auto* where = bad && r.text.front() != '{' ? stderr : stdout;
  std::fprintf(where, "%s\n", r.text.c_str());
  std::fflush(where);
}

// Returns false when no more lines are wanted; `code` is then the exit code.
bool answer(const repl_lines& lines, const std::string& line, bool at_terminal, int& code) {
  const auto begin = line.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos || line[begin] == '#') return true;
  const auto words = line.substr(begin);
  const auto* row = find_repl_command(repl_split(words).front());
  const bool typed_ends_it = at_terminal && row && row->follow && row->follow->endless;
  const auto r = run_line(lines, words, nullptr, print, [&] { return wait_a_little(typed_ends_it); });
  const bool bad = r.how == kind::failed || r.how == kind::usage;
  if (r.how == kind::quit) return false;
  if (bad && !at_terminal) code = r.how == kind::usage ? 2 : 1;
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
  while (std::getline(std::cin, line) && answer(lines, line, false, code)) {
  }
  return code;
}

struct terminal {
  std::string prompt;
  const repl_lines& lines;
};

terminal& terminal_of(EditLine* editor) {
  void* p = nullptr;
  ::el_get(editor, EL_CLIENTDATA, &p);
  return *static_cast<terminal*>(p);
}

char* prompt_of(EditLine* editor) { return terminal_of(editor).prompt.data(); }

// The word before the cursor, completed as far as all candidates agree; a second tab shows them. Whoever answers lines knows them.
unsigned char complete(EditLine* editor, int) {
  const auto* l = ::el_line(editor);
  const std::string typed(l->buffer, static_cast<std::size_t>(l->cursor - l->buffer));
  const auto reply = terminal_of(editor).lines("_complete " + typed, nullptr);
  std::vector<std::string> fits;
  std::istringstream in(reply.how == kind::ok ? reply.text : std::string());
  for (std::string fit; std::getline(in, fit);) fits.push_back(fit);
  const auto tab = repl_press_tab(typed, std::move(fits));
  if (!tab.insert.empty()) return ::el_insertstr(editor, tab.insert.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
  if (tab.show.empty()) return CC_REFRESH_BEEP;
  std::printf("\n");
  for (const auto& f : tab.show) std::printf("%s  ", f.c_str());
  std::printf("\n");
  std::fflush(stdout);
  return CC_REDISPLAY;
}

std::string history_file() {
  const char* home = std::getenv("HOME");
  return home ? std::string(home) + "/.troupe_history" : std::string();
}

int run_terminal(const repl_lines& lines, const repl_options& o) {
  terminal here{o.prompt, lines};
  std::unique_ptr<EditLine, void (*)(EditLine*)> editor(::el_init("troupe", stdin, stdout, stderr), ::el_end);
  std::unique_ptr<History, void (*)(History*)> history(::history_init(), ::history_end);
  if (!editor || !history) return run_script(lines);
  HistEvent event;
  ::history(history.get(), &event, H_SETSIZE, 500);
  ::history(history.get(), &event, H_SETUNIQUE, 1);
  const auto file = history_file();
  if (!file.empty()) ::history(history.get(), &event, H_LOAD, file.c_str());
  ::el_set(editor.get(), EL_CLIENTDATA, &here);
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
    if (!answer(lines, line, true, code)) break;
  }
  if (!file.empty()) ::history(history.get(), &event, H_SAVE, file.c_str());
  return code;
}

}  // namespace

repl_reply run_line(const repl_lines& lines, const std::string& line, const std::string* text,
                    const std::function<void(const repl_reply&)>& show_reply, const std::function<bool()>& go_on) {
  auto r = lines(line, text);
  for (;;) {
    if (!r.text.empty()) show_reply(r);
    if (r.how != kind::ok || r.next.empty() || !go_on()) return r;
    r = lines(r.next, nullptr);
  }
}

int run_repl(const repl_lines& lines, const repl_options& o) {
  int code = 0;
  if (o.has_commands) {
    for (const auto& c : split_commands(o.commands))
      if (!answer(lines, c, false, code)) break;
    return code;
  }
  if (::isatty(STDIN_FILENO) != 0 && !o.json) return run_terminal(lines, o);
  return run_script(lines);
}

}  // namespace troupe
