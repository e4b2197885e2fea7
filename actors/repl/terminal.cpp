// Reads lines from a terminal (libedit: history, completion), from `-c`, or from stdin.
#include <histedit.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <memory>
#include <sstream>
#include <utility>

#include "actors/repl/command.hpp"
#include "actors/repl/complete.hpp"
#include "actors/repl/signals.hpp"
#include "actors/repl/words.hpp"
#include "runtime/base/printable.hpp"

namespace troupe {
namespace {

using kind = repl_reply::kind;
using wake = repl_signals::woken;
constexpr std::chrono::milliseconds without_limit{-1};

// Waits between two requests of a followed command; with `typed`, at most until a line is typed.
// Returns false if a typed line or a signal ends the command.
bool wait_a_little(repl_signals& signals, bool typed) {
  const auto by = signals.wait(typed ? STDIN_FILENO : -1, repl_ask_every);
  if (by != wake::by_input) return repl_signals::ends() == 0;
  char swallowed[4096];
  return ::read(STDIN_FILENO, swallowed, sizeof swallowed) < 0;
}

void print(const repl_reply& r) {
  // Errors in JSON go to stdout like all replies, errors in text to stderr.
  const bool bad = r.how == kind::failed || r.how == kind::usage;
  const bool is_json = r.text.starts_with('{');
  auto* where = bad && !is_json ? stderr : stdout;
  std::fprintf(where, "%s\n", is_json ? r.text.c_str() : printable(r.text, line_breaks::kept).c_str());
  std::fflush(where);
}

// The arguments of a command that redraws one line: the terminal's width and character set.
std::string drawing_arguments() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) size.ws_col = 80;
  const auto* charset = "";
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (const char* value = std::getenv(name); value && *value != '\0' && *charset == '\0') charset = value;
  const std::string set = charset;
  const bool blocks = set.find("UTF-8") != std::string::npos || set.find("utf8") != std::string::npos;
  return " width=" + std::to_string(size.ws_col) + " draw=" + (blocks ? "blocks" : "ascii");
}

// Prints the replies to one line of input.
class reply_printer {
 public:
  explicit reply_printer(bool redraws) : redraws_(redraws) {}
  void operator()(const repl_reply& r) {
    if (!redraws_ || r.how != kind::ok) {
      end();
      return print(r);
    }
    std::printf("\r%s\x1b[K", printable(r.text).c_str());
    std::fflush(stdout);
    drawn_ = true;
  }
  void end() {
    if (std::exchange(drawn_, false)) std::printf("\n");
  }

 private:
  bool redraws_, drawn_ = false;
};

// Answers one line. Returns false if the REPL ends; `code` is then the exit code.
bool answer(const repl_lines& lines, const repl_options& o, const std::string& line, bool at_terminal, repl_signals& signals,
            int& code) {
  const auto begin = line.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos || line[begin] == '#') return true;
  auto arguments = line.substr(begin);
  const auto words = repl_read_words(arguments);
  const auto* entry = find_repl_command(words.list.front());
  const bool typed_ends_it = at_terminal && entry && entry->endless;
  const bool redraws = at_terminal && entry && entry->redraws && words.error.empty() && ::isatty(STDOUT_FILENO) != 0;
  if (redraws) arguments += drawing_arguments();
  reply_printer show(redraws);
  const auto ask = [&](const std::string& request, const std::string* text) {
    o.answering(true);
    return lines(request, text);
  };
  const auto r = run_line(ask, arguments, nullptr, std::ref(show), [&] {
    o.answering(false);
    if (entry && entry->endless && std::ferror(stdout) != 0) return false;  // nobody reads what it prints
    return wait_a_little(signals, typed_ends_it);
  });
  o.answering(false);
  const bool interrupted = repl_signals::ends() != 0;
  if (!interrupted) show.end();
  if (interrupted && !r.next.empty() && entry && entry->follow)
    std::fprintf(stderr, "%snot waiting any more; the job still executes the command\n", at_terminal ? "\n" : "");
  const bool bad = r.how == kind::failed || r.how == kind::usage;
  if (r.how == kind::quit) return false;
  if (bad && !at_terminal) code = r.how == kind::usage ? 2 : 1;
  return code == 0;
}

// The lines of stdin.
class input_lines {
 public:
  explicit input_lines(repl_signals& signals) : signals_(signals) {}

  // Returns false at the end of input, or if a signal ends the script.
  bool next(std::string& line) {
    for (;;) {
      if (const auto end = text_.find('\n'); end != std::string::npos) {
        line = text_.substr(0, end);
        text_.erase(0, end + 1);
        return true;
      }
      if (at_end_) {
        line = std::exchange(text_, {});
        return !line.empty();
      }
      while (signals_.wait(STDIN_FILENO, without_limit) != wake::by_input)
        if (repl_signals::ends() != 0) return false;
      char buffer[4096];
      const auto got = ::read(STDIN_FILENO, buffer, sizeof buffer);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0)
        at_end_ = true;
      else
        text_.append(buffer, static_cast<std::size_t>(got));
    }
  }

 private:
  repl_signals& signals_;
  std::string text_;
  bool at_end_ = false;
};

int run_script(const repl_lines& lines, const repl_options& o, repl_signals& signals) {
  int code = 0;
  input_lines input(signals);
  std::string line;
  while (repl_signals::ends() == 0 && input.next(line) && answer(lines, o, line, false, signals, code)) {
  }
  return code;
}

struct terminal {
  std::string prompt;
  const repl_lines& lines;
  repl_signals& signals;
};

terminal& terminal_of(EditLine* editor) {
  void* p = nullptr;
  ::el_get(editor, EL_CLIENTDATA, &p);
  return *static_cast<terminal*>(p);
}

char* prompt_of(EditLine* editor) { return terminal_of(editor).prompt.data(); }

// Reads the next typed character; returns -1 if a signal ends the line. libedit's own signal
// handling (EL_SIGNAL) is off: it sends the signals to the whole process group again, and uses the
// editor on the thread that received the signal.
int read_character(EditLine* editor, wchar_t* out) {
  auto& signals = terminal_of(editor).signals;
  std::mbstate_t state{};
  for (;;) {
    while (signals.wait(STDIN_FILENO, without_limit) != wake::by_input) {
      if (repl_signals::ends() != 0) return -1;
      if (repl_signals::take(SIGWINCH)) ::el_resize(editor);
      if (!repl_signals::take(SIGCONT)) continue;
      ::el_set(editor, EL_PREP_TERM, 0);  // the shell has changed the terminal's mode: libedit must set it again
      ::el_set(editor, EL_PREP_TERM, 1);
      ::el_set(editor, EL_REFRESH);
    }
    char byte = 0;
    const auto got = ::read(STDIN_FILENO, &byte, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return static_cast<int>(got);
    const auto used = std::mbrtowc(out, &byte, 1, &state);
    if (used == 0 || used == 1) return 1;
    if (used == static_cast<std::size_t>(-1)) state = {};  // not a character in this locale: dropped
  }
}

// Completes the word before the cursor to the common prefix of all candidates; a second tab shows
// the candidates, which are files of this machine or come from `_complete`.
unsigned char complete(EditLine* editor, int) {
  const auto* l = ::el_line(editor);
  const std::string typed(l->buffer, static_cast<std::size_t>(l->cursor - l->buffer));
  auto files = repl_complete_file(typed);
  if (!files) {
    const auto reply = terminal_of(editor).lines("_complete " + typed, nullptr);
    std::istringstream in(reply.how == kind::ok ? reply.text : std::string());
    files.emplace();
    for (std::string fit; std::getline(in, fit);) files->fits.push_back(printable(fit));
  }
  const auto tab = repl_press_tab(typed, std::move(files->fits), files->replaces);
  if (tab.erase > 0) ::el_deletestr(editor, static_cast<int>(tab.erase));
  if (!tab.insert.empty()) return ::el_insertstr(editor, tab.insert.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
  if (tab.show.empty()) return CC_REFRESH_BEEP;
  std::printf("\n");
  for (const auto& f : tab.show) std::printf("%s  ", printable(f).c_str());
  std::printf("\n");
  std::fflush(stdout);
  return CC_REDISPLAY;
}

std::string history_file() {
  const char* home = std::getenv("HOME");
  return home ? std::string(home) + "/.troupe_history" : std::string();
}

int run_terminal(const repl_lines& lines, const repl_options& o, repl_signals& signals) {
  terminal here{o.prompt, lines, signals};
  std::unique_ptr<EditLine, void (*)(EditLine*)> editor(::el_init("troupe", stdin, stdout, stderr), ::el_end);
  std::unique_ptr<History, void (*)(History*)> history(::history_init(), ::history_end);
  if (!editor || !history) return run_script(lines, o, signals);
  HistEvent event;
  ::history(history.get(), &event, H_SETSIZE, 500);
  ::history(history.get(), &event, H_SETUNIQUE, 1);
  const auto file = history_file();
  if (!file.empty()) ::history(history.get(), &event, H_LOAD, file.c_str());
  ::el_set(editor.get(), EL_CLIENTDATA, &here);
  ::el_set(editor.get(), EL_PROMPT, prompt_of);
  ::el_set(editor.get(), EL_EDITOR, "emacs");
  ::el_set(editor.get(), EL_GETCFN, read_character);
  ::el_set(editor.get(), EL_HIST, ::history, history.get());
  ::el_set(editor.get(), EL_ADDFN, "troupe-complete", "complete a command", complete);
  ::el_set(editor.get(), EL_BIND, "^I", "troupe-complete", nullptr);
  ::el_source(editor.get(), nullptr);
  int code = 0, count = 0;
  while (repl_signals::ends() == 0) {
    repl_signals::take(SIGCONT);  // the prompt is drawn anyway
    const char* typed = ::el_gets(editor.get(), &count);
    if (!typed && repl_signals::take(SIGINT)) {
      std::printf("^C\n");
      continue;
    }
    if (!typed) {  // the end of input, or a signal that ends the REPL
      std::printf("\n");
      break;
    }
    std::string line(typed, static_cast<std::size_t>(std::max(0, count)));
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
    if (!line.empty()) ::history(history.get(), &event, H_ENTER, line.c_str());
    // Saved before the line is answered: the process may be killed while it is.
    if (!file.empty()) ::history(history.get(), &event, H_SAVE, file.c_str());
    if (!answer(lines, o, line, true, signals, code)) break;
    if (repl_signals::take(SIGINT)) std::printf("\n");  // it ended the command
  }
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

int run_repl(const repl_lines& lines, const repl_options& o, repl_signals& signals) {
  int code = 0;
  if (o.has_commands) {
    const auto commands = repl_read_commands(o.commands);
    if (!commands) {
      print({kind::usage, repl_error_text(o.json, commands.error().text), {}});
      return 2;
    }
    for (const auto& c : *commands)
      if (repl_signals::ends() != 0 || !answer(lines, o, c, false, signals, code)) break;
  } else if (::isatty(STDIN_FILENO) != 0 && !o.json) {
    code = run_terminal(lines, o, signals);
  } else {
    code = run_script(lines, o, signals);
  }
  const int by = repl_signals::ends();
  return by != 0 ? 128 + by : code;
}

}  // namespace troupe
