#include "apps/cli/screen.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string_view>

#include "runtime/base/number_text.hpp"
#include "runtime/base/printable.hpp"

namespace troupe {
namespace {

constexpr std::size_t label_columns = 12;

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

}  // namespace

screen screen::of_stdout() {
  screen s;
  s.redraws = isatty(STDOUT_FILENO) != 0 && environment("TERM") != "dumb";
  s.colours = s.redraws && environment("NO_COLOR").empty();
  return s;
}

std::size_t screen::columns(std::size_t otherwise) {
  winsize w{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : otherwise;
}

std::string screen::painted(const std::string& text, tint t) const {
  auto shown = printable(text, line_breaks::kept);
  if (!colours || t == tint::none) return shown;
  const char* const begin = t == tint::faint ? "\033[2m" : t == tint::bold ? "\033[1m" : t == tint::good ? "\033[32m" : "\033[33m";
  return begin + shown + "\033[0m";
}

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

std::string cut_to(const std::string& text, std::size_t columns) {
  std::size_t used = 0, at = 0;
  for (; at < text.size(); ++at)
    if (begins_character(text[at]) && used++ == columns) break;
  return text.substr(0, at);
}

std::string wrapped(const std::string& text, std::size_t columns, std::size_t indent) {
  std::string s;
  std::size_t used = 0;
  const auto next_line = [&] {
    s += "\n" + std::string(indent, ' ');
    used = indent;
  };
  bool fresh = true;  // no word in this line yet
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find_first_of(" \n", at), text.size());
    const auto word = text.substr(at, end - at);
    const auto wide = width_of(word);
    if (!fresh && used + 1 + wide > columns) next_line(), fresh = true;
    if (!word.empty()) {
      if (!fresh) s += " ", ++used;
      s += word;
      used += wide;
      fresh = false;
    }
    if (end < text.size() && text[end] == '\n') next_line(), fresh = true;
    at = end + 1;
  }
  return s;
}

std::string near_path(const std::string& path) {
  std::error_code ec;
  const auto near = std::filesystem::proximate(path, ec).string();
  return ec || near.empty() || near.starts_with("..") ? path : near;
}

std::string labelled(const screen& s, const std::string& label, const std::string& text) {
  const auto gap = width_of(label) < label_columns ? label_columns - width_of(label) : 1;
  const auto shown = printable(text, line_breaks::kept);
  const auto body = s.redraws ? wrapped(shown, std::max<std::size_t>(screen::columns(), 40) - label_columns) : shown;
  std::string indented;
  for (const char c : body) {
    indented += c;
    if (c == '\n') indented += std::string(label_columns, ' ');
  }
  return s.painted(label, tint::faint) + std::string(gap, ' ') + indented + "\n";
}

bool writes_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const auto value = environment(name);
    if (value.empty()) continue;
    return value.find("UTF-8") != value.npos || value.find("utf8") != value.npos || value.find("UTF8") != value.npos ||
           value.find("utf-8") != value.npos;
  }
  return true;
}

int terminal_width() {
  winsize w{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0) return w.ws_col;
  int columns = 0;
  return read_number(std::string(environment("COLUMNS")), columns) && columns > 0 ? std::min(columns, 1000) : 80;
}

bool terminal_unicode() {
  if (environment("TERM") == "dumb") return false;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {  // the first that is set counts, as for setlocale()
    auto locale = std::string(environment(name));
    if (locale.empty()) continue;
    std::transform(locale.begin(), locale.end(), locale.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  }
  return false;
}

bool terminal_colour() {
  return isatty(STDOUT_FILENO) != 0 && environment("NO_COLOR").empty() && environment("TERM") != "dumb" &&
         !environment("TERM").empty();
}

bool can_ask() { return isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0; }

bool ask_yes(const std::string& question) {
  std::fputs((printable(question) + " [y/N] ").c_str(), stdout);
  std::fflush(stdout);
  std::string answer;
  if (!std::getline(std::cin, answer)) std::fputs("\n", stdout);
  return answer == "y" || answer == "Y" || answer == "yes";
}

}  // namespace troupe
