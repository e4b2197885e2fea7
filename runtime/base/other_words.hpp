// Words of PyTorch, Keras, Caffe and other programs, with Troupe's: types of layers, update rules,
// schedules, keys, commands of the command line and of the REPL. For hints in errors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// The words among `candidates` that mean what other programs call `word` ("Conv2d",
// "cross_entropy", "fit"), best first. Case, '_', '-' and spaces do not matter. Empty: the word is
// not known.
std::vector<std::string> words_for(std::string_view word, const std::vector<std::string>& candidates);

// Whether the two differ in case, '_', '-' and spaces at most.
bool other_spelling(std::string_view a, std::string_view b);

// What words_for() finds over all words, for callers without a list of candidates. Keys of a job
// file are whole paths ("train.dynamics.lr").
std::vector<std::string> words_for(std::string_view word);

}  // namespace troupe
