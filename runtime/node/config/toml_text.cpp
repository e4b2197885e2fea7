#include "runtime/node/config/toml_text.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "runtime/base/number_text.hpp"
#include "runtime/base/printable.hpp"

namespace troupe {
namespace {

template <class List>
std::string list_text(const List& list) {
  std::string s;
  for (const auto& e : list) s += (s.empty() ? "" : ", ") + toml_text(e);
  return "[" + s + "]";
}

}  // namespace

std::string toml_text(std::string_view s) {
  std::string out = "\"";
  while (!s.empty()) {
    const auto c = s.front();
    const auto n = utf8_length(s);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n' || c == '\t') {
      out += c == '\n' ? "\\n" : "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04X", static_cast<unsigned>(static_cast<unsigned char>(c)));
      out += escaped;
    } else if (n == 0) {
      out += "\xEF\xBF\xBD";
    } else {
      out += s.substr(0, n);
    }
    s.remove_prefix(std::max<std::size_t>(n, 1));
  }
  return out + "\"";
}

std::string toml_text(const std::string& s) { return toml_text(std::string_view(s)); }
std::string toml_text(const char* s) { return toml_text(std::string_view(s)); }
std::string toml_text(std::int64_t v) { return number_text(v); }
std::string toml_text(double v) {
  const auto s = number_text(v);
  return std::isfinite(v) && s.find_first_of(".e") == std::string::npos ? s + ".0" : s;
}
std::string toml_text(bool v) { return v ? "true" : "false"; }
std::string toml_text(const std::vector<std::string>& v) { return list_text(v); }
std::string toml_text(const std::vector<std::int64_t>& v) { return list_text(v); }
std::string toml_text(const std::vector<double>& v) { return list_text(v); }

std::string toml_text(const options& o) {
  std::string s;
  for (const auto& [key, value] : o.values) s += (s.empty() ? " " : ", ") + toml_key(key) + " = " + toml_text(value);
  return s.empty() ? "{}" : "{" + s + " }";
}

std::string toml_text(const option_value& v) {
  return std::visit(
      [](const auto& x) {
        if constexpr (std::is_same_v<std::decay_t<decltype(x)>, std::shared_ptr<options>>)
          return toml_text(x ? *x : options{});
        else
          return toml_text(x);
      },
      v);
}

std::string toml_key(const std::string& key) {
  const auto bare = [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  return !key.empty() && std::all_of(key.begin(), key.end(), bare) ? key : toml_text(key);
}

}  // namespace troupe
