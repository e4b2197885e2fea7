// Completion, without a terminal: the text before the cursor and what there is to name give words.
#pragma once

#include <string>
#include <vector>

#include "actors/repl/repl.hpp"

namespace troupe {

// The words that may stand where `typed` ends, sorted: those that begin with its last word, as the
// row of its first says.
std::vector<std::string> repl_complete(const std::string& typed, const repl_view& view);

// What a tab does with the words that fit: it inserts as much as they agree on, with a blank behind
// the only one; else it shows them.
struct repl_tab {
  std::string insert;
  std::vector<std::string> show;
};
repl_tab repl_press_tab(const std::string& typed, std::vector<std::string> fits);

}  // namespace troupe
