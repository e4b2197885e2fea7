// Numbers in messages, independent of the locale: a program around Troupe, such as Python after
// locale.setlocale(), may have one with decimal commas, which std::to_string(double) obeys.
#pragma once

#include <charconv>
#include <string>

namespace troupe {

// With six digits behind the point, as std::to_string writes it in the "C" locale.
inline std::string real_text(double v) {
  std::string text(400, '\0');  // of the greatest double
  const auto end = std::to_chars(text.data(), text.data() + text.size(), v, std::chars_format::fixed, 6).ptr;
  text.resize(static_cast<std::size_t>(end - text.data()));
  return text;
}

}  // namespace troupe
