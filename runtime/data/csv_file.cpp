#include "runtime/data/csv_file.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "runtime/base/wording.hpp"

namespace troupe {
namespace {

constexpr std::size_t max_columns = std::size_t{1} << 20;

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

enum class field_kind : std::uint8_t { number, not_finite, text };
field_kind number_in(std::string_view f, double& v) {
  const auto digits = f.size() > 1 && f[0] == '+' && f[1] != '-' ? f.substr(1) : f;
  const auto [end, bad] = std::from_chars(digits.data(), digits.data() + digits.size(), v);
  if (bad == std::errc::result_out_of_range || (bad == std::errc{} && !std::isfinite(v))) return field_kind::not_finite;
  return bad == std::errc{} && end == digits.data() + digits.size() ? field_kind::number : field_kind::text;
}

class csv_parser {
 public:
  csv_parser(std::span<const std::uint8_t> file, const csv_format& f)
      : rest_(reinterpret_cast<const char*>(file.data()), file.size()), format_(f) {
    if (rest_.substr(0, 3) == "\xef\xbb\xbf") rest_.remove_prefix(before_ = 3);
  }

  expected<csv_table, csv_error> parse() {
    while (next_line()) {
      if (keep_.empty() ? !first_line() : !row()) return unexpected(std::move(error_));
    }
    if (table_.lines.empty())
      return unexpected(csv_error{0, format_.header && line_ > 0 ? "only a header line, no rows" : "no rows"});
    return std::move(table_);
  }

  expected<csv_first_line, csv_error> first() {
    const auto all = rest_.size() + before_;
    if (!next_line()) return unexpected(csv_error{0, "no rows"});
    csv_first_line out;
    out.bytes = all - rest_.size();
    out.line = line_;
    if (!fields_of_line(out.fields)) return unexpected(std::move(error_));
    return out;
  }

 private:
  bool fail(std::string text, bool full = false) {
    error_ = {line_, std::move(text), full};
    return false;
  }

  // Advances to the next line that is not empty.
  bool next_line() {
    while (!rest_.empty()) {
      const auto end = rest_.find('\n');
      text_ = rest_.substr(0, end);
      rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
      ++line_;
      if (!text_.empty() && text_.back() == '\r') text_.remove_suffix(1);
      if (!trimmed(text_).empty()) return true;
    }
    return false;
  }

  // The next field of this line. Empty if there is none, or if it is malformed (then error_ is
  // set).
  std::optional<std::string_view> field() {
    if (over_) return std::nullopt;
    // The separator may be a blank: only other blanks are trimmed.
    auto lead = text_;
    while (!lead.empty() && (lead.front() == ' ' || lead.front() == '\t') && lead.front() != format_.separator)
      lead.remove_prefix(1);
    if (!lead.empty() && lead.front() == '"') return quoted(lead);
    const auto end = text_.find(format_.separator);
    const auto out = trimmed(text_.substr(0, end));
    over_ = end == std::string_view::npos;
    text_.remove_prefix(over_ ? text_.size() : end + 1);
    return out;
  }

  std::optional<std::string_view> quoted(std::string_view at) {
    const auto close = at.find('"', 1);
    if (close == std::string_view::npos) return fail("a quote that does not end on its line"), std::nullopt;
    const auto out = at.substr(1, close - 1);
    at.remove_prefix(close + 1);
    const auto end = at.find(format_.separator);
    if (!trimmed(at.substr(0, end)).empty()) return fail("text after a closing quote"), std::nullopt;
    over_ = end == std::string_view::npos;
    text_ = over_ ? std::string_view{} : at.substr(end + 1);
    return trimmed(out);
  }

  bool fields_of_line(std::vector<std::string>& out) {
    over_ = false;
    while (const auto f = field()) {
      if (out.size() == max_columns) return fail("more than 2^20 columns");
      out.emplace_back(*f);
    }
    return error_.text.empty();
  }

  // Reads the number and names of the columns and which of them are read. Without a header the line
  // is also a row.
  bool first_line() {
    const auto whole = text_;
    std::vector<std::string> names;
    if (!fields_of_line(names)) return false;
    for (std::size_t i = 0; i < names.size() && !format_.header; ++i) names[i] = std::to_string(i);
    keep_.assign(names.size(), true);
    for (const auto& name : format_.ignore) {
      auto at = std::find(names.begin(), names.end(), name);
      std::size_t number = 0;
      const auto [end, bad] = std::from_chars(name.data(), name.data() + name.size(), number);
      if (at == names.end() && bad == std::errc{} && end == name.data() + name.size() && number < names.size())
        at = names.begin() + static_cast<std::ptrdiff_t>(number);
      if (at == names.end())
        return fail("ignore names column " + in_quotes(name) + ", which does not exist (" + std::to_string(names.size()) +
                    " columns are read)");
      keep_[static_cast<std::size_t>(at - names.begin())] = false;
    }
    for (std::size_t i = 0; i < names.size(); ++i)
      if (keep_[i]) table_.names.push_back(std::move(names[i]));
    if (table_.names.empty()) return fail("all columns are ignored");
    if (format_.header) return true;
    text_ = whole;
    return row();
  }

  bool row() {
    if (line_ > UINT32_MAX) return fail("more than 2^32 lines");
    if (table_.values.size() + table_.names.size() > format_.max_values) return fail("more values than memory_mib allows", true);
    over_ = false;
    std::size_t column = 0;
    for (; const auto f = field(); ++column) {
      if (column >= keep_.size()) return fail("more fields than the " + std::to_string(keep_.size()) + " of the first line");
      if (!keep_[column]) continue;
      if (!number(*f, column)) return false;
    }
    if (!error_.text.empty()) return false;
    if (column < keep_.size())
      return fail(std::to_string(column) + " fields, but the first line has " + std::to_string(keep_.size()));
    table_.lines.push_back(static_cast<std::uint32_t>(line_));
    return true;
  }

  bool number(std::string_view f, std::size_t column) {
    double v = 0;
    const auto how = number_in(f, v);
    if (how == field_kind::not_finite) return fail("column " + std::to_string(column) + ": not a finite number");
    if (how == field_kind::text)
      return fail("column " + std::to_string(column) + ": " + (f.empty() ? "an empty field" : "text") + " instead of a number");
    table_.values.push_back(v);
    return true;
  }

  std::string_view rest_, text_;
  const csv_format& format_;
  std::uint64_t line_ = 0;
  std::size_t before_ = 0;  // bytes before rest_ as given
  bool over_ = false;
  std::vector<bool> keep_;  // by column of the file
  csv_table table_;
  csv_error error_;
};

}  // namespace

expected<csv_table, csv_error> parse_csv(std::span<const std::uint8_t> file, const csv_format& f) {
  return csv_parser(file, f).parse();
}

expected<csv_first_line, csv_error> parse_csv_first_line(std::span<const std::uint8_t> file, char separator) {
  const csv_format f{.separator = separator};
  return csv_parser(file, f).first();
}

bool is_csv_number(const std::string& field) {
  double v = 0;
  return number_in(field, v) != field_kind::text;
}

}  // namespace troupe
