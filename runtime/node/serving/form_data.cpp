#include "runtime/node/serving/form_data.hpp"

#include <algorithm>
#include <optional>

namespace troupe {
namespace {

constexpr std::size_t longest_boundary = 70;  // RFC 2046

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

// Takes the text up to `end` from the front of `rest`, and `end`.
std::string_view take_until(std::string_view& rest, char end) {
  const auto at = rest.find(end);
  const auto out = rest.substr(0, at);
  rest = at == std::string_view::npos ? std::string_view() : rest.substr(at + 1);
  return out;
}

// The value of a parameter as in `form-data; name="x"; filename="y"`. A quoted value may contain
// semicolons; `\"` does not end it.
std::optional<std::string_view> parameter(std::string_view rest, std::string_view wanted) {
  (void)take_until(rest, ';');
  while (!rest.empty()) {
    const auto key = trimmed(take_until(rest, '='));
    rest = rest.substr(std::min(rest.find_first_not_of(" \t"), rest.size()));
    std::string_view value;
    if (rest.starts_with('"')) {
      std::size_t end = 1;
      while (end < rest.size() && rest[end] != '"') end += rest[end] == '\\' ? 2 : 1;
      if (end >= rest.size()) return std::nullopt;
      value = rest.substr(1, end - 1);
      rest = rest.substr(end + 1);
      (void)take_until(rest, ';');
    } else {
      value = trimmed(take_until(rest, ';'));
    }
    if (same_word(key, wanted)) return value;
  }
  return std::nullopt;
}

// The part whose header and content are `text`.
expected<form_part> part_of(std::string_view text) {
  const auto end = text.starts_with("\r\n") ? 0 : text.find("\r\n\r\n");
  if (end == std::string_view::npos || end > most_part_header)
    return unexpected(error("a part of the form has no header lines, or more than 8 KiB of them"));
  auto header = text.substr(0, end);
  form_part p;
  p.content = text.substr(end + (text.starts_with("\r\n") ? 2 : 4));
  while (!header.empty()) {
    const auto stop = header.find("\r\n");
    auto line = header.substr(0, stop);
    header = stop == std::string_view::npos ? std::string_view() : header.substr(stop + 2);
    if (!same_word(trimmed(take_until(line, ':')), "content-disposition")) continue;
    p.name = parameter(line, "name").value_or(std::string_view());
    const auto file = parameter(line, "filename");
    p.is_file = file.has_value();
    p.file = file.value_or(std::string_view());
  }
  return p;
}

}  // namespace

bool is_form_data(std::string_view content_type) {
  return same_word(trimmed(content_type.substr(0, content_type.find(';'))), "multipart/form-data");
}

expected<std::vector<form_part>> form_parts(std::string_view body, std::string_view content_type) {
  const auto boundary = parameter(content_type, "boundary");
  if (!boundary || boundary->empty() || boundary->size() > longest_boundary)
    return unexpected(error("the Content-Type of the form has no boundary of 1 to 70 characters"));
  const auto mark = "\r\n--" + std::string(*boundary);
  std::vector<form_part> parts;
  // The first mark may be at the beginning of the body, without a line break before it.
  auto rest = body;
  if (rest.starts_with(std::string_view(mark).substr(2)))
    rest.remove_prefix(mark.size() - 2);
  else if (const auto at = rest.find(mark); at != std::string_view::npos)
    rest.remove_prefix(at + mark.size());
  else
    return unexpected(error("the form has no part with the boundary of its Content-Type"));
  while (!rest.starts_with("--")) {
    const auto line = rest.find("\r\n");
    if (line == std::string_view::npos || !trimmed(rest.substr(0, line)).empty())
      return unexpected(error("a boundary of the form does not end its line"));
    rest.remove_prefix(line + 2);
    const auto end = rest.find(mark);
    if (end == std::string_view::npos) return unexpected(error("the form is truncated: its last boundary is missing"));
    if (parts.size() == most_form_parts)
      return unexpected(error("the form has more than " + std::to_string(most_form_parts) + " parts"));
    auto part = part_of(rest.substr(0, end));
    if (!part) return unexpected(part.error());
    parts.push_back(*part);
    rest.remove_prefix(end + mark.size());
  }
  return parts;
}

}  // namespace troupe
