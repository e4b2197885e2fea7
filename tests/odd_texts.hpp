// Texts that must not become names, and must not reach a terminal or a log as they are.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace troupe::testing_texts {

// What is odd, and the text, which is valid TOML in a basic string once escaped, except "no UTF-8".
inline std::vector<std::pair<std::string, std::string>> odd_texts() {
  std::vector<std::pair<std::string, std::string>> all = {{"empty", ""},
                                                          {"201 bytes", std::string(201, 'n')},
                                                          {"900 kB", std::string(900'000, 'n')},
                                                          {"an escape sequence", "a\x1b[2Jb"},
                                                          {"a title sequence", "a\x1b]0;title\x07"},
                                                          {"a C1 control sequence introducer",
                                                           "a\xc2\x9b"
                                                           "2J"},
                                                          {"a line break", "a\nn1 forged line"},
                                                          {"a carriage return", "a\rb"},
                                                          {"a tab", "a\tb"},
                                                          {"a backspace", "a\b"},
                                                          {"DEL", "a\x7f"},
                                                          {"no UTF-8", "a\xff"},
                                                          {"a raw C1 byte",
                                                           "a\x9b"
                                                           "2J"}};
  for (const char* hidden : {"\xd8\x9c", "\xe2\x80\x8b", "\xe2\x80\x8e", "\xe2\x80\x8f", "\xe2\x80\xa8", "\xe2\x80\xa9",
                             "\xe2\x80\xaa", "\xe2\x80\xab", "\xe2\x80\xac", "\xe2\x80\xad", "\xe2\x80\xae", "\xe2\x81\xa6",
                             "\xe2\x81\xa7", "\xe2\x81\xa8", "\xe2\x81\xa9", "\xef\xbb\xbf", "\xf3\xa0\x80\x81"})
    all.emplace_back("a hidden character", std::string("a") + hidden + "b");
  return all;
}

}  // namespace troupe::testing_texts
