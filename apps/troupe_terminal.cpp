#include "apps/troupe_terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "runtime/base/number_text.hpp"
#include "runtime/base/printable.hpp"

namespace troupe {
namespace {

std::string environment_text(const char* name) {
  const char* v = std::getenv(name);
  return v == nullptr ? std::string() : std::string(v);
}

}  // namespace

int terminal_width() {
  winsize w{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0) return w.ws_col;
  int columns = 0;
  return read_number(environment_text("COLUMNS"), columns) && columns > 0 ? std::min(columns, 1000) : 80;
}

bool terminal_unicode() {
  if (environment_text("TERM") == "dumb") return false;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {  // the first that is set counts, as for setlocale()
    auto locale = environment_text(name);
    if (locale.empty()) continue;
    std::transform(locale.begin(), locale.end(), locale.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  }
  return false;
}

bool terminal_colour() {
  return isatty(STDOUT_FILENO) != 0 && environment_text("NO_COLOR").empty() && environment_text("TERM") != "dumb" &&
         !environment_text("TERM").empty();
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
