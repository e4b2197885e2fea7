// Numbers as text, independent of the locale: a program around Troupe, such as Python after
// locale.setlocale(), may have one with decimal commas, which printf() and strtod() obey.
#pragma once

#include <charconv>
#include <string>
#include <system_error>

namespace troupe {

// The shortest text that read_number() turns into the same number.
template <class T>
std::string number_text(T number) {
  char buffer[64];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, number).ptr};
}

// As printf's "%.*f".
inline std::string fixed_text(double number, int digits) {
  std::string text(400, '\0');  // of the greatest double, with some digits behind its point
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed, digits).ptr;
  text.resize(static_cast<std::size_t>(end - text.data()));
  return text;
}

// As printf's "%.*g".
inline std::string general_text(double number, int significant) {
  char buffer[64];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::general, significant).ptr};
}

// Returns false if `text` is not exactly one number of type T; `number` is then unchanged.
template <class T>
bool read_number(const std::string& text, T& number) {
  T read{};
  const auto r = std::from_chars(text.data(), text.data() + text.size(), read);
  if (text.empty() || r.ec != std::errc{} || r.ptr != text.data() + text.size()) return false;
  number = read;
  return true;
}

}  // namespace troupe
