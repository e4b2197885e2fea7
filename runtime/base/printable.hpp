// Text that was made by files, peers and other programs, on its way to people: which names are
// accepted where they enter, and how any text reaches a terminal, a log or a file for people. Pure.
//
// Unprintable: control characters (C0, DEL, C1 with U+009B), line and paragraph separators,
// characters that change the direction of text, characters without a width, and bytes that are not
// UTF-8. They can drive a terminal, forge lines of a log, or make two names look the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/result.hpp"

namespace troupe {

inline constexpr std::size_t longest_name = 200, longest_path = 4096;  // bytes

// Bytes of the UTF-8 character that `text` begins with; 0 if it begins with none. Overlong forms,
// surrogates and values beyond U+10FFFF are none.
std::size_t utf8_length(std::string_view text);

// A name of a job, layer, node, run, room or owner: 1 to `longest_name` bytes of printable UTF-8.
// The error shows the name escaped and cut, and says which character is wrong.
expected<void> check_name(std::string_view name);
// The same for the path of a file, with `longest_path`.
expected<void> check_path(std::string_view path);

// The text with unprintable characters as \xNN (bytes) or \uNNNN. `kept`: line breaks and tabs
// stay.
enum class line_breaks : std::uint8_t { escaped, kept };
std::string printable(std::string_view text, line_breaks = line_breaks::escaped);

// At most `most` bytes of the text, and how many more there are: "abc... (97 more bytes)".
std::string shortened(std::string_view text, std::size_t most);
// A name that was accepted by an earlier version, or by another program, as a name of today.
std::string as_name(std::string_view text);

}  // namespace troupe
