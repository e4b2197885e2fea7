// Completion without a terminal: computes candidate words from the text before the cursor and a
// view.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "actors/repl/repl.hpp"

namespace troupe {

// Returns the candidates for the last word of `typed`, sorted: those that begin with it and that
// the command's table entry lists for this argument.
std::vector<std::string> repl_complete(const std::string& typed, const repl_view& view);

// Files of this machine that complete the last word of `typed`. The client's process calls it,
// never a daemon. Nullopt: the word is not a file name.
struct repl_file_fits {
  std::vector<std::string> fits;  // each replaces the last word; folders end with '/'
  bool replaces = false;          // they do not begin with the word, because a name needs quotes
};
std::optional<repl_file_fits> repl_complete_file(const std::string& typed);

// What a tab key does with the candidates: it inserts their common prefix, with a blank after the
// only one. If there is no more to insert, it shows them.
struct repl_tab {
  std::string insert;
  std::vector<std::string> show;
  std::size_t erase = 0;  // characters before the cursor that are erased first
};
repl_tab repl_press_tab(const std::string& typed, std::vector<std::string> fits, bool replaces = false);

}  // namespace troupe
