#include "runtime/messages/mode_choice.hpp"

#include <sstream>

namespace troupe {

std::string mode_choice::text() const {
  std::string s = name;
  for (const auto& [key, value] : options) s.append(" ").append(key).append("=").append(value);
  return s;
}

mode_choice mode_choice::of(const std::string& text) {
  mode_choice m;
  std::istringstream words(text);
  words >> m.name;
  for (std::string w; words >> w;)
    if (const auto is = w.find('='); is != std::string::npos) m.options.emplace_back(w.substr(0, is), w.substr(is + 1));
  return m;
}

}  // namespace troupe
