// Completion of command lines in bash, zsh and fish. The shells' scripts only call the program
// again: `troupe __complete PROGRAM WORD...`, where the last word is the one to complete. It prints
// a line for each candidate:
//
//   CANDIDATE<TAB>DESCRIPTION     a word; the cursor stays behind a candidate that ends with '='
//   :files [ENDING]               file names belong to the candidates, those with this ending
//   :folders                      folder names belong to the candidates
//
// The candidates come from the tables of commands and options (command_line.hpp), of layers,
// modes and job keys, and from the folder of runs.
#pragma once

#include <string>
#include <vector>

namespace troupe {

constexpr const char* completion_command = "__complete";
// Runs it. `words`: program and words, the last one to complete. Returns the exit code.
int complete(const std::vector<std::string>& words);

const std::vector<std::string>& completion_shells();  // bash, zsh, fish
// The script that the shell reads. It completes `troupe` and `trouped`.
std::string completion_script(const std::string& shell);

}  // namespace troupe
