// Text columns and JSON lines, for the REPL's tables. Private to actors/repl/.
#pragma once

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <vector>

namespace troupe::repl_text {

using json_object = nlohmann::ordered_json;

inline std::string line_of(const json_object& o) { return o.dump(-1, ' ', false, json_object::error_handler_t::replace); }

inline std::string number(double x, const char* format = "%.6g") {
  char text[64];
  std::snprintf(text, sizeof text, format, x);
  return text;
}
template <class T>
requires std::is_integral_v<T> std::string number(T n) { return std::to_string(n); }

// A text table. Each column is as wide as its widest cell; the last one is not padded.
class columns {
 public:
  explicit columns(std::vector<std::string> head) { add(std::move(head)); }
  void add(std::vector<std::string> entry) { entries_.push_back(std::move(entry)); }
  std::string text() const {
    std::vector<std::size_t> width;
    for (const auto& r : entries_)
      for (std::size_t i = 0; i < r.size(); ++i) {
        width.resize(std::max(width.size(), i + 1));
        width[i] = std::max(width[i], r[i].size());
      }
    std::string out;
    for (const auto& r : entries_) {
      std::string line;
      for (std::size_t i = 0; i < r.size(); ++i)
        line += r[i] + (i + 1 < r.size() ? std::string(width[i] + 2 - r[i].size(), ' ') : std::string());
      while (!line.empty() && line.back() == ' ') line.pop_back();
      out += (out.empty() ? "" : "\n") + line;
    }
    return out;
  }

 private:
  std::vector<std::vector<std::string>> entries_;
};

}  // namespace troupe::repl_text
