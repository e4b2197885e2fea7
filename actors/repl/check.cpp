// `troupe repl --check`: parses lines of the REPL without a session.
#include <algorithm>
#include <cstdint>
#include <sstream>

#include "actors/repl/command.hpp"
#include "actors/repl/words.hpp"
#include "runtime/base/wording.hpp"

namespace troupe {
namespace {

struct word_count {
  std::size_t least = 0, most = 0;
};

// The number of words that one form of the arguments accepts: "NODE [by TIME] [key=value...]".
word_count words_of_form(const std::string& form) {
  word_count n;
  bool optional = false;
  std::istringstream words(form);
  for (std::string w; words >> w;) {
    optional = optional || w.starts_with("[");
    n.least += optional ? 0 : 1;
    n.most = w.find("...]") != std::string::npos ? SIZE_MAX / 2 : n.most + 1;
    optional = optional && !w.ends_with("]");
  }
  return n;
}

// Of all forms: "start FILE | stop".
word_count words_of(const std::string& forms) {
  word_count all{SIZE_MAX, 0};
  for (std::size_t at = 0; at <= forms.size();) {
    const auto end = std::min(forms.find(" | ", at), forms.size());
    const auto n = words_of_form(forms.substr(at, end - at));
    all = {std::min(all.least, n.least), std::max(all.most, n.most)};
    at = end + 3;
  }
  return all;
}

}  // namespace

repl_reply repl_checked(const std::string& line, bool json) {
  const auto wrong = [json](const std::string& why) { return repl_reply{repl_reply::kind::usage, repl_error_text(json, why), {}}; };
  const auto words = repl_read_words(line);
  if (words.list.empty() || words.list[0].starts_with("#")) return {};
  if (!words.error.empty()) return wrong(words.error);
  const auto name = repl_command_name(words.list[0]);
  const auto* command = find_repl_command(name);
  if (!command) return wrong(repl_unknown_command(name));
  const auto given = words.list.size() - 1;
  const auto [least, most] = words_of(command->help.arguments);
  if (given < least || given > most)
    return wrong(in_quotes(name) + " takes " + (command->help.arguments.empty() ? "no arguments" : command->help.arguments) +
                 ", not " + std::to_string(given) + (given == 1 ? " word" : " words"));
  return {};
}

}  // namespace troupe
