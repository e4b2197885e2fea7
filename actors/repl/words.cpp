#include "actors/repl/words.hpp"

#include <utility>

namespace troupe {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

std::string unclosed(char quote, std::size_t at) {
  return std::string("the quote ") + quote + " in column " + std::to_string(at + 1) + " is not closed";
}

}  // namespace

repl_words repl_read_words(std::string_view line) {
  repl_words out;
  std::string word;
  repl_quotes quotes;
  std::size_t opened_at = 0;
  bool any = false, removed = false;  // a word has begun; its first quotes are removed
  const auto end_word = [&](std::size_t next) {
    if (any) out.list.push_back(std::exchange(word, {}));
    any = removed = false;
    out.last_at = next;
  };
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i], open = quotes.open();
    quotes.take(c);
    if (open == 0 && is_blank(c)) {
      end_word(i + 1);
      continue;
    }
    if (open == 0 && quotes.open() != 0) opened_at = i;
    const bool begins = !any && quotes.open() != 0, ends = removed && open != 0 && quotes.open() == 0;
    const bool escapes = removed && quotes.escaped() && i + 1 < line.size() && (line[i + 1] == '"' || line[i + 1] == '\\');
    any = true;
    if (begins) removed = true;
    if (ends) removed = false;
    if (!begins && !ends && !escapes) word += c;
  }
  if (quotes.open() != 0) out.error = unclosed(quotes.open(), opened_at);
  if (any) out.list.push_back(std::move(word));
  return out;
}

expected<std::vector<std::string>> repl_read_commands(std::string_view text) {
  std::vector<std::string> out(1);
  repl_quotes quotes;
  std::size_t opened_at = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char open = quotes.open();
    const auto begin = out.back().find_first_not_of(" \t\r\n");
    const bool remark = begin != std::string::npos && out.back()[begin] == '#';
    if (!remark) quotes.take(text[i]);
    if (open == 0 && quotes.open() != 0) opened_at = i;
    if (open == 0 && text[i] == ';')
      out.emplace_back();
    else
      out.back() += text[i];
  }
  if (quotes.open() != 0) return unexpected(error(unclosed(quotes.open(), opened_at)));
  return out;
}

}  // namespace troupe
