// Splits a line of the REPL into words, and a list of commands (-c) into lines. Private to
// actors/repl/.
//
//   move "conv 1" n2             Blanks separate words, except between quotes "..." or '...'.
//   "a b"  'a b'                 Quotes at the start of a word are removed.
//   plugins=["libswish.so"]      Quotes after the first character of a word stay: they belong to a
//   job.name="two words"         TOML value.
//   "a \" b"                     In "...", \" does not end the quotes; in quotes that are removed,
//                                \" means " and \\ means \.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"

namespace troupe {

// Follows the quotes in a text, character by character.
class repl_quotes {
 public:
  void take(char c) {
    if (escaped_)
      escaped_ = false;
    else if (open_ == '"' && c == '\\')
      escaped_ = true;
    else if (open_ != 0)
      open_ = c == open_ ? 0 : open_;
    else if (c == '"' || c == '\'')
      open_ = c;
  }
  char open() const { return open_; }  // the quote that is not closed yet; 0: none
  bool escaped() const { return escaped_; }

 private:
  char open_ = 0;
  bool escaped_ = false;
};

struct repl_words {
  std::vector<std::string> list;
  std::size_t last_at = 0;  // position of the last word in the line; its length if the line ends with a blank
  std::string error = {};   // the line ends within quotes; empty: no error. `list` is complete in both cases
};
repl_words repl_read_words(std::string_view line);

// Splits "a; b" at each ';' outside quotes. An error if the text ends within quotes.
expected<std::vector<std::string>> repl_read_commands(std::string_view text);

}  // namespace troupe
