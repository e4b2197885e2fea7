// Converts numbers to text and back without loss, independent of the locale.
#pragma once

#include <charconv>
#include <string>
#include <system_error>

namespace troupe {

template <class T>
std::string number_text(T number) {
  char buffer[64];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, number).ptr};
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
