#include "runtime/base/wording.hpp"

#include <algorithm>

#include "runtime/base/number_text.hpp"
#include "runtime/base/printable.hpp"

namespace troupe {

constexpr std::size_t longest_word = 80;

std::string in_quotes(std::string_view word) {
  std::size_t end = std::min(word.size(), longest_word);
  while (end < word.size() && end > 0 && (static_cast<unsigned char>(word[end]) & 0xc0) == 0x80)
    --end;  // do not cut inside a UTF-8 character
  return "'" + printable(word.substr(0, end)) + (end < word.size() ? "...'" : "'");
}

std::string with_commas(std::uint64_t n) {
  auto s = std::to_string(n);
  for (auto at = static_cast<std::ptrdiff_t>(s.size()) - 3; at > 0; at -= 3) s.insert(static_cast<std::size_t>(at), ",");
  return s;
}

std::string bytes_text(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t u = 0;
  for (; bytes >= 1024 && u < 4; ++u) bytes /= 1024;
  return fixed_text(bytes, u == 0 ? 0 : 1) + ' ' + units[u];
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string s;
  for (const auto& w : words) s += (s.empty() ? "" : between) + w;
  return s;
}

source_position position_of(const std::map<std::string, source_position>& keys, std::string key, const source_position& other) {
  while (!key.empty()) {
    if (auto i = keys.find(key); i != keys.end()) return i->second;
    const auto dot = key.rfind('.');
    key.resize(dot == std::string::npos ? 0 : dot);
  }
  return other;
}

}  // namespace troupe
