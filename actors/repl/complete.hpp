// Completion without a terminal: computes candidate words from the text before the cursor and a
// view.
#pragma once

#include <string>
#include <vector>

#include "actors/repl/repl.hpp"

namespace troupe {

// Returns the candidates for the last word of `typed`, sorted: those that begin with it and that
// the command's table entry lists for this argument.
std::vector<std::string> repl_complete(const std::string& typed, const repl_view& view);

// What a tab key does with the candidates: it inserts their common prefix, with a blank after the
// only one. If there is no more to insert, it shows them.
struct repl_tab {
  std::string insert;
  std::vector<std::string> show;
};
repl_tab repl_press_tab(const std::string& typed, std::vector<std::string> fits);

}  // namespace troupe
