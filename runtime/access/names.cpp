#include "runtime/access/names.hpp"

#include <algorithm>

namespace troupe {

bool valid_node_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
  };
  return !name.empty() && name.size() < 64 && name[0] != '.' && name[0] != '-' && std::all_of(name.begin(), name.end(), fits);
}

bool is_operator(std::string_view name) {
  return name == client_name || (name.starts_with(client_name) && name.substr(client_name.size()).starts_with('.'));
}

bool valid_operator_name(std::string_view name) {
  return valid_node_name(name) && name.size() <= 32 && name.find('.') == std::string_view::npos;
}

std::string operator_of(std::string_view session) {
  if (!is_operator(session) || session.size() == client_name.size()) return std::string(session);
  session.remove_prefix(client_name.size() + 1);
  const auto dot = session.find('.');
  return std::string(dot == std::string_view::npos ? client_name : session.substr(0, dot));
}

bool may_be_called(std::string_view name, std::string_view common_name) {
  if (name == common_name) return !is_operator(name) || name == client_name;
  if (!is_operator(common_name) || !name.starts_with(common_name)) return false;
  const auto rest = name.substr(common_name.size());
  return rest.size() > 1 && rest[0] == '.' && rest.find('.', 1) == std::string_view::npos;
}

bool wins_tie_break(std::string_view a, std::string_view b) {
  if (is_operator(a) != is_operator(b)) return is_operator(b);
  return a < b;
}

}  // namespace troupe
