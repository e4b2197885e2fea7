#include "runtime/node/config/text_check.hpp"

#include <cstddef>

#include "runtime/base/printable.hpp"

namespace troupe {
namespace {

constexpr int max_key_parts = 16;

// Counts the parts of dotted keys; recognises strings and comments only as far as this needs. In
// text that is not TOML, the parser stops at the first mistake, and before it both agree on what is
// a string.
class key_depth {
 public:
  // Returns true if the key (or number) at `at` is within the limit; advances `at` by one token.
  bool step(std::string_view s, std::size_t& at) {
    const char c = s[at];
    if (c == '"' || c == '\'') {
      skip_string(s, at);
      return true;
    }
    if (c == '#') {
      while (at < s.size() && s[at] != '\n') ++at;
      return true;
    }
    if (c == '.')
      ++dots_;
    else if (c == '\n' || c == '=' || c == ',' || c == '[' || c == ']' || c == '{' || c == '}')
      dots_ = 0;
    ++at;
    return dots_ < max_key_parts;
  }

 private:
  static void skip_string(std::string_view s, std::size_t& at) {
    const char quote = s[at];
    const bool many = s.size() - at >= 3 && s[at + 1] == quote && s[at + 2] == quote;
    at += many ? 3 : 1;
    while (at < s.size()) {
      if (s[at] == '\\' && quote == '"') {
        at += 2;
      } else if (!many && (s[at] == quote || s[at] == '\n')) {
        ++at;
        return;
      } else if (many && s.compare(at, 3, std::string(3, quote)) == 0) {
        at += 3;
        while (at < s.size() && s[at] == quote) ++at;  // a string may end with one or two quotes
        return;
      } else {
        ++at;
      }
    }
  }

  int dots_ = 0;
};

source_position position_at(std::string_view text, std::size_t offset, const std::string& file) {
  source_position p{file, 1, 1};
  for (std::size_t i = 0; i < offset && i < text.size(); ++i) {
    if (text[i] == '\n') {
      ++p.line;
      p.column = 1;
    } else if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) {
      ++p.column;  // characters, not bytes
    }
  }
  return p;
}

}  // namespace

bool check_text(std::string_view text, const std::string& file, diagnostics& errors) {
  for (std::size_t at = 0; at < text.size();) {
    const auto n = text[at] == '\0' ? 0 : utf8_length(text.substr(at));
    if (n == 0) {
      errors.push_back(
          {position_at(text, at, file), text[at] == '\0' ? "a NUL byte: this is not a text file" : "a byte that is not UTF-8"});
      return false;
    }
    at += n;
  }
  key_depth depth;
  for (std::size_t at = 0; at < text.size();) {
    const auto begin = at;
    if (depth.step(text, at)) continue;
    errors.push_back({position_at(text, begin, file), "a key of more than " + std::to_string(max_key_parts) + " parts"});
    return false;
  }
  return true;
}

}  // namespace troupe
