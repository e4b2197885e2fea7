#include "runtime/node/config/keys.hpp"

#include <charconv>

namespace troupe {

bool read_key(table_reader& r, const key_descriptor& k, std::string& into) {
  if (k.kind == key_kind::name) return r.name(k.name, into);
  return k.kind == key_kind::word ? r.word(k.name, into, k.words, k.planned) : r.text(k.name, into);
}
bool read_key(table_reader& r, const key_descriptor& k, std::vector<std::string>& into) { return r.texts(k.name, into); }
bool read_key(table_reader& r, const key_descriptor& k, std::int64_t& into) {
  if (k.kind == key_kind::bytes) return r.bytes(k.name, into);
  const auto max = k.max >= 9.2e18 ? INT64_MAX : static_cast<std::int64_t>(k.max);
  return r.integer(k.name, into, static_cast<std::int64_t>(k.min), max);
}
bool read_key(table_reader& r, const key_descriptor& k, double& into) {
  return k.kind == key_kind::time ? r.time(k.name, into) : r.real(k.name, into, k.min, k.max);
}
bool read_key(table_reader& r, const key_descriptor& k, bool& into) { return r.flag(k.name, into); }
bool read_key(table_reader& r, const key_descriptor& k, double& into, std::vector<double>& list) {
  return r.real_or_list(k.name, into, list, k.min, k.max);
}

std::string written(const std::string& v) { return v.empty() ? std::string() : "\"" + v + "\""; }
std::string written(const std::vector<std::string>& v) {
  std::string s;
  for (const auto& e : v) s += (s.empty() ? "[" : ", ") + written(e);
  return s.empty() ? s : s + "]";
}
std::string written(std::int64_t v) { return std::to_string(v); }
std::string written(double v) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, v).ptr};
}
std::string written(bool v) { return v ? "true" : "false"; }

}  // namespace troupe
