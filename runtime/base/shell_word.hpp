// Words of the commands that messages name.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstring>
#include <string>

namespace troupe {

// Quotes a word for a POSIX shell.
inline std::string shell_word(const std::string& text) {
  const auto plain = [](unsigned char c) { return std::isalnum(c) != 0 || (c != 0 && std::strchr("_-+=./,:@%", c) != nullptr); };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return text;
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace troupe
