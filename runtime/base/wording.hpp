// Text and positions of diagnostics, shared by all checks of user files.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/diagnostic.hpp"

namespace troupe {

// 'word', printable() (runtime/base/printable.hpp); a word of more than 80 bytes is cut.
std::string in_quotes(std::string_view word);

// "; did you mean 'x'?", or empty if no candidate is similar.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

std::string with_commas(std::uint64_t n);  // "12,345"
std::string bytes_text(double bytes);      // "1.5 MiB"

std::string joined(const std::vector<std::string>& words, const char* between = ", ");

// The position of the longest known prefix of a dotted key ("weight_filler.std", then
// "weight_filler"), else `other`.
source_position position_of(const std::map<std::string, source_position>& keys, std::string key, const source_position& other);

}  // namespace troupe
