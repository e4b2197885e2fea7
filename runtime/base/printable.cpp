#include "runtime/base/printable.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>

#include "runtime/base/wording.hpp"

namespace troupe {
namespace {

struct code_range {
  char32_t first, last;
};
constexpr std::array<code_range, 10> unprintable = {{
    {0, 0x1f},
    {0x7f, 0x9f},
    {0xad, 0xad},       // soft hyphen
    {0x61c, 0x61c},     // Arabic letter mark
    {0x200b, 0x200f},   // zero width, marks of direction
    {0x2028, 0x202e},   // separators, embeddings and overrides of direction
    {0x2060, 0x206f},   // word joiner, isolates of direction
    {0xfeff, 0xfeff},   // byte order mark
    {0xfff9, 0xfffb},   // interlinear annotation
    {0xe0000, 0xe0fff}  // tags and variation selectors
}};

// The character of the `n` bytes that utf8_length() found.
char32_t code_of(std::string_view text, std::size_t n) {
  constexpr std::array<unsigned, 5> mask = {0, 0x7f, 0x1f, 0x0f, 0x07};
  char32_t c = static_cast<unsigned char>(text[0]) & mask[n];
  for (std::size_t i = 1; i < n; ++i) c = c << 6 | (static_cast<unsigned char>(text[i]) & 0x3fU);
  return c;
}

bool is_printable(char32_t c) {
  return std::none_of(unprintable.begin(), unprintable.end(), [c](const code_range& r) { return c >= r.first && c <= r.last; });
}

std::string hex(const char* format, unsigned value) {
  std::array<char, 16> digits{};
  std::snprintf(digits.data(), digits.size(), format, value);
  return digits.data();
}

// The first character of `text`: its bytes, and how it is shown; empty: as it is.
struct shown_character {
  std::size_t bytes = 1;
  std::string escape;
};
shown_character first_character(std::string_view text) {
  const auto n = utf8_length(text);
  if (n == 0) return {1, hex("\\x%02x", static_cast<unsigned char>(text[0]))};
  const auto c = code_of(text, n);
  if (is_printable(c)) return {n, {}};
  return {n, hex(n == 1 ? "\\x%02x" : c > 0xffff ? "\\U%08x" : "\\u%04x", static_cast<unsigned>(c))};
}

// The longest beginning of at most `most` bytes that does not end inside a character.
std::string_view beginning_of(std::string_view text, std::size_t most) {
  auto end = std::min(text.size(), most);
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

expected<void> check_printable(std::string_view text, std::size_t most, const char* what) {
  if (text.empty()) return unexpected(error(std::string("the ") + what + " is empty"));
  if (text.size() > most)
    return unexpected(error(std::string("the ") + what + " " + in_quotes(text) + " has " + std::to_string(text.size()) +
                            " bytes; at most " + std::to_string(most) + " are allowed"));
  for (std::size_t at = 0; at < text.size();) {
    const auto c = first_character(text.substr(at));
    if (!c.escape.empty())
      return unexpected(error(std::string("the ") + what + " " + in_quotes(text) + " has the unprintable character " + c.escape +
                              ": control characters, invisible ones and changes of direction are not allowed"));
    at += c.bytes;
  }
  return {};
}

}  // namespace

std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto first = byte(0);
  if (text.empty()) return 0;
  if (first < 0x80) return 1;
  const std::size_t n = first >= 0xc2 && first <= 0xdf ? 2 : (first & 0xf0) == 0xe0 ? 3 : first >= 0xf0 && first <= 0xf4 ? 4 : 0;
  for (std::size_t i = 1; i < n; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  const bool overlong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  const bool no_character = (first == 0xed && byte(1) >= 0xa0) || (first == 0xf4 && byte(1) >= 0x90);
  return overlong || no_character ? 0 : n;
}

expected<void> check_name(std::string_view name) { return check_printable(name, longest_name, "name"); }
expected<void> check_path(std::string_view path) { return check_printable(path, longest_path, "path"); }

std::string printable(std::string_view text, line_breaks breaks) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const bool kept = breaks == line_breaks::kept && (text[0] == '\n' || text[0] == '\t');
    const auto c = kept ? shown_character{} : first_character(text);
    out += c.escape.empty() ? text.substr(0, c.bytes) : std::string_view(c.escape);
    text.remove_prefix(c.bytes);
  }
  return out;
}

std::string shortened(std::string_view text, std::size_t most) {
  const auto begin = beginning_of(text, most);
  if (begin.size() == text.size()) return std::string(text);
  return std::string(begin) + "... (" + std::to_string(text.size() - begin.size()) + " more bytes)";
}

std::string as_name(std::string_view text) {
  if (check_name(text)) return std::string(text);
  constexpr std::string_view more = "...";
  auto name = printable(beginning_of(text, longest_name));
  if (name.size() > longest_name || text.size() > longest_name)
    name = std::string(beginning_of(name, longest_name - more.size())).append(more);
  return name.empty() ? "?" : name;
}

}  // namespace troupe
