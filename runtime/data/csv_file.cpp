#include "runtime/data/csv_file.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "runtime/base/printable.hpp"
#include "runtime/base/wording.hpp"

namespace troupe {
namespace {

constexpr std::size_t max_columns = std::size_t{1} << 20, max_class_names = std::size_t{1} << 16, names_shown = 20;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

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

std::string_view text_of(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string_view without_mark(std::string_view text) { return text.starts_with("\xef\xbb\xbf") ? text.substr(3) : text; }

// Finds the records of a text and their fields.
class csv_scanner {
 public:
  csv_scanner(std::string_view all, char separator) : end_(all.data() + all.size()), rest_(all), separator_(separator) {}

  // Advances to the next record that is not empty; the fields of the last one must have been taken.
  bool next_record() {
    while (!rest_.empty()) {
      take_line(rest_);
      if (empty_line()) continue;
      over_ = false;
      return true;
    }
    return false;
  }

  // The next field of this record, without blanks around it. Empty if there is none, or if it is
  // malformed (then wrong() says why). Valid until the next call.
  std::optional<std::string_view> field() {
    if (over_) return std::nullopt;
    // The separator may be a blank: only other blanks are trimmed.
    auto lead = text_;
    while (!lead.empty() && (lead.front() == ' ' || lead.front() == '\t') && lead.front() != separator_) lead.remove_prefix(1);
    if (!lead.empty() && lead.front() == '"') return quoted(lead.data());
    const auto end = text_.find(separator_);
    const auto out = trimmed(text_.substr(0, end));
    leave(end);
    return out;
  }

  const std::string& wrong() const { return wrong_; }
  std::uint64_t line() const { return line_; }       // of the end of the last field, from 1; of wrong()
  const char* rest() const { return rest_.data(); }  // after this record, once its fields are taken
  bool whole() const { return whole_; }              // a line break ended this record
  bool open_quote() const { return open_quote_; }    // wrong() is a quote that is not closed

 private:
  // Makes the line at the beginning of `from` the one that is read.
  void take_line(std::string_view from) {
    const auto end = from.find('\n');
    whole_ = end != std::string_view::npos;
    text_ = from.substr(0, end);
    rest_ = from.substr(whole_ ? end + 1 : from.size());
    ++line_;
    if (!text_.empty() && text_.back() == '\r') text_.remove_suffix(1);
  }

  bool empty_line() const {
    return std::all_of(text_.begin(), text_.end(),
                       [this](char c) { return (c == ' ' || c == '\t') && (c != separator_ || c == ' '); });
  }

  // Ends a field of text_ at its separator.
  void leave(std::size_t end) {
    over_ = end == std::string_view::npos;
    text_.remove_prefix(over_ ? text_.size() : end + 1);
  }

  std::optional<std::string_view> fail(const char* text, bool open_quote = false) {
    wrong_ = text;
    open_quote_ = open_quote;
    over_ = true;
    return std::nullopt;
  }

  std::optional<std::string_view> quoted(const char* quote) {
    const std::string_view at(quote + 1, static_cast<std::size_t>(end_ - quote) - 1);
    std::size_t close = at.find('"');
    bool doubled = false;
    while (close != std::string_view::npos && close + 1 < at.size() && at[close + 1] == '"') {
      doubled = true;
      close = at.find('"', close + 2);
    }
    if (close == std::string_view::npos) return fail("a quote that is not closed", true);
    auto out = at.substr(0, close);
    const auto after = at.substr(close + 1);
    if (const auto breaks = std::count(out.begin(), out.end(), '\n'); breaks > 0) {
      line_ += static_cast<std::uint64_t>(breaks) - 1;
      take_line(after);
    } else {
      text_ = after.substr(0, static_cast<std::size_t>(text_.data() + text_.size() - after.data()));
    }
    const auto end = text_.find(separator_);
    if (!trimmed(text_.substr(0, end)).empty()) return fail("text after a closing quote");
    leave(end);
    if (doubled) out = single_quotes(out);
    return trimmed(out);
  }

  std::string_view single_quotes(std::string_view s) {
    scratch_.clear();
    for (std::size_t k = 0; k < s.size(); ++k) {
      scratch_ += s[k];
      if (s[k] == '"') ++k;
    }
    return scratch_;
  }

  const char* end_;
  std::string_view rest_, text_;  // after this line; of this line after the last field
  char separator_;
  std::uint64_t line_ = 0;
  bool over_ = true, whole_ = false, open_quote_ = false;
  std::string scratch_, wrong_;
};

// size: one method for each kind of record and field
class csv_parser {
 public:
  csv_parser(std::span<const std::uint8_t> file, const csv_format& f)
      : scan_(without_mark(text_of(file)), f.separator), format_(f) {
    for (std::size_t k = 0; k < f.class_names.size(); ++k) number_of_name_.emplace(f.class_names[k], k);
  }

  expected<csv_table, csv_error> parse() {
    if (!format_.header && !format_.names.empty() && !columns(format_.names)) return unexpected(std::move(error_));
    bool first = true;
    for (; scan_.next_record(); first = false)
      if (first && keep_.empty() ? !first_record() : !row()) return unexpected(std::move(error_));
    if (table_.lines.empty()) return unexpected(csv_error{0, format_.header && !first ? "only a header line, no rows" : "no rows"});
    sort_names();
    return std::move(table_);
  }

 private:
  bool fail(std::string text, csv_error::part of = csv_error::part::file) {
    error_ = {scan_.line(), std::move(text), false, of};
    return false;
  }
  bool fail(std::size_t column, const std::string& text) {
    const bool named = format_.header || !format_.names.empty();
    return fail("column " + (named ? in_quotes(names_[column]) : std::to_string(column)) + ": " + text);
  }

  // Sets which of the columns are read, and their names.
  bool columns(std::vector<std::string> names) {
    keep_.assign(names.size(), true);
    for (const auto& word : format_.ignore) {
      const auto at = csv_column(word, names);
      if (!at) return fail("ignore: " + at.error().text, csv_error::part::ignore);
      keep_[*at] = false;
    }
    for (const auto at : format_.skip) {
      if (at >= keep_.size()) return fail("fewer fields than in the first line");
      keep_[at] = false;
    }
    std::vector<std::size_t> kept;
    for (std::size_t i = 0; i < names.size(); ++i)
      if (keep_[i]) table_.names.push_back(names[i]), kept.push_back(i);
    if (table_.names.empty()) return fail("all columns are ignored", csv_error::part::ignore);
    names_ = std::move(names);
    if (format_.label.empty()) return true;
    const auto at = csv_column(format_.label, table_.names);
    if (!at) return fail(at.error().text, csv_error::part::label);
    table_.label = *at;
    label_ = kept[*at];
    return true;
  }

  // The names of the columns. Without a header it is also a row.
  bool first_record() {
    const auto begin = scan_.line();
    std::vector<std::string> fields;
    while (const auto f = scan_.field()) {
      if (fields.size() == max_columns) return fail("more than 2^20 columns");
      fields.emplace_back(*f);
    }
    if (!scan_.wrong().empty()) return fail(scan_.wrong());
    if (format_.header) return columns(std::move(fields));
    std::vector<std::string> numbers;
    for (std::size_t i = 0; i < fields.size(); ++i) numbers.push_back(std::to_string(i));
    if (!columns(std::move(numbers)) || !begin_row(begin)) return false;
    for (std::size_t i = 0; i < fields.size(); ++i)
      if (!take(fields[i], i)) return false;
    return true;
  }

  // `line`: where the record begins.
  bool begin_row(std::uint64_t line) {
    if (line > UINT32_MAX) return fail("more than 2^32 lines");
    if (table_.values.size() + table_.names.size() > format_.max_values) {
      fail("more values than memory_mib allows");
      error_.full = true;
      return false;
    }
    table_.lines.push_back(static_cast<std::uint32_t>(line));
    return true;
  }

  bool row() {
    if (!begin_row(scan_.line())) return false;
    std::size_t column = 0;
    for (; const auto f = scan_.field(); ++column) {
      if (column >= keep_.size()) return fail("more fields than the " + std::to_string(keep_.size()) + " of the first line");
      if (!take(*f, column)) return false;
    }
    if (!scan_.wrong().empty()) return fail(scan_.wrong());
    if (column == keep_.size()) return true;
    return fail(std::to_string(column) + " fields, but the first line has " + std::to_string(keep_.size()));
  }

  bool take(std::string_view f, std::size_t column) {
    if (!keep_[column]) return true;
    if (column == label_) return label(f, column);
    return number(f, column);
  }

  bool number(std::string_view f, std::size_t column) {
    double v = nan;
    const auto how = number_in(f, v);
    if (how == field_kind::number || (format_.missing && is_missing_csv_field(f))) {
      table_.values.push_back(how == field_kind::number ? v : nan);
      return true;
    }
    if (how == field_kind::not_finite) return fail(column, "not a finite number");
    if (!f.empty()) return fail(column, "text instead of a number");
    fail(column, "an empty field instead of a number");
    error_.of = csv_error::part::missing;
    return false;
  }

  // A number, or a name of a class. The first label decides, unless the names are given.
  bool label(std::string_view f, std::size_t column) {
    double v = nan;
    const auto how = number_in(f, v);
    // A word that is one of the given names, as "None" may be, is that class.
    if (is_missing_csv_field(f) && !number_of_name_.contains(f)) {
      if (!format_.missing)
        return fail(column, f.empty() ? "a label is missing" : "a label is missing (class_names may list this word as a class)");
      table_.values.push_back(nan);
      if (labels_ != labels::numbers) table_.classes.push_back(-1);
      return true;
    }
    if (labels_ == labels::unknown) {
      labels_ = format_.class_names.empty() && how == field_kind::number ? labels::numbers : labels::names;
      if (labels_ == labels::numbers) table_.classes.clear();
    }
    if (labels_ == labels::names) return name(f, column, how);
    if (how == field_kind::not_finite) return fail(column, "not a finite number");
    if (how == field_kind::text) return fail(column, "a text among class numbers (class_names lists the names of the classes)");
    table_.values.push_back(v);
    return true;
  }

  bool name(std::string_view f, std::size_t column, field_kind how) {
    auto at = number_of_name_.find(f);
    if (at == number_of_name_.end()) {
      if (!format_.class_names.empty()) return fail(column, "a class that is not one of the " + known_names());
      if (how == field_kind::number)
        return fail(column, "a number among names of classes (class_names lists the names of the classes)");
      if (!check_name(f)) return fail(column, "a name of a class that is no printable UTF-8 text of at most 200 bytes");
      if (number_of_name_.size() == max_class_names) return fail(column, "more than 65,536 names of classes");
      at = number_of_name_.emplace(std::string(f), number_of_name_.size()).first;
    }
    table_.values.push_back(nan);
    table_.classes.push_back(static_cast<std::int32_t>(at->second));
    return true;
  }

  std::string known_names() const {
    return std::to_string(format_.class_names.size()) + " in class_names, or in the training file";
  }

  void sort_names() {
    if (labels_ != labels::names) {
      table_.classes.clear();
      return;
    }
    table_.class_names = format_.class_names;
    if (!table_.class_names.empty()) return;
    std::vector<std::int32_t> place(number_of_name_.size());
    for (const auto& [word, number] : number_of_name_) {
      place[number] = static_cast<std::int32_t>(table_.class_names.size());
      table_.class_names.push_back(word);
    }
    for (auto& c : table_.classes)
      if (c >= 0) c = place[static_cast<std::size_t>(c)];
  }

  enum class labels : std::uint8_t { unknown, numbers, names };

  csv_scanner scan_;
  const csv_format& format_;
  std::vector<bool> keep_;  // by column of the file
  std::vector<std::string> names_;
  std::size_t label_ = SIZE_MAX;  // column of the file
  labels labels_ = labels::unknown;
  std::map<std::string, std::size_t, std::less<>> number_of_name_;
  csv_table table_;
  csv_error error_;
};

// An error if `text` has a NUL byte: an image, an archive or UTF-16 that was taken for a table.
expected<void, csv_error> check_text(std::string_view text) {
  const auto at = text.find('\0');
  if (at == std::string_view::npos) return {};
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
  return unexpected(csv_error{static_cast<std::uint64_t>(line), "a NUL byte: this is no text; save the table as CSV in UTF-8"});
}

}  // namespace

expected<csv_table, csv_error> parse_csv(std::span<const std::uint8_t> file, const csv_format& f) {
  if (auto fine = check_text(text_of(file)); !fine) return unexpected(std::move(fine).error());
  return csv_parser(file, f).parse();
}

expected<csv_first_line, csv_error> parse_csv_first_line(std::span<const std::uint8_t> file, char separator) {
  csv_scanner scan(without_mark(text_of(file)), separator);
  if (!scan.next_record()) return unexpected(csv_error{0, "no rows"});
  csv_first_line out;
  while (const auto f = scan.field()) {
    if (out.fields.size() == max_columns) return unexpected(csv_error{scan.line(), "more than 2^20 columns"});
    out.fields.emplace_back(*f);
  }
  out.bytes = static_cast<std::size_t>(scan.rest() - text_of(file).data());
  if (auto fine = check_text(text_of(file).substr(0, out.bytes)); !fine) return unexpected(std::move(fine).error());
  if (!scan.wrong().empty()) return unexpected(csv_error{scan.line(), scan.wrong()});
  out.lines = scan.line();
  return out;
}

std::size_t complete_csv_records(std::span<const std::uint8_t> bytes, char separator) {
  const auto text = text_of(bytes);
  csv_scanner scan(without_mark(text), separator);
  std::size_t complete = 0;
  while (scan.next_record()) {
    while (scan.field()) continue;
    if (!scan.whole() || scan.open_quote()) return complete;
    // Another mistake ends with its line: whoever parses the record finds it.
    complete = static_cast<std::size_t>(scan.rest() - text.data());
    if (!scan.wrong().empty()) return complete;
  }
  const auto last = text.rfind('\n');  // only empty lines follow
  return last == std::string_view::npos ? complete : std::max(complete, last + 1);
}

bool is_csv_number(std::string_view field) {
  double v = 0;
  return number_in(field, v) != field_kind::text;
}

std::optional<double> csv_number(std::string_view field) {
  double v = 0;
  if (number_in(field, v) != field_kind::number) return std::nullopt;
  return v;
}

bool is_missing_csv_field(std::string_view field) {
  std::string lower(field.substr(0, std::min<std::size_t>(field.size(), 5)));
  for (auto& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const char* word : {"", "na", "n/a", "nan", "null", "none", "?"})
    if (lower == word) return true;
  return false;
}

char likely_csv_separator(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of("\xef\xbb\xbf\r\n "), text.size()));
  const auto line = text.substr(0, text.find('\n'));
  // Separators in quotes are none.
  const auto count = [line](char separator) {
    bool quoted = false;
    std::size_t n = 0;
    for (const char c : line) {
      if (c == '"') quoted = !quoted;
      n += c == separator && !quoted ? 1 : 0;
    }
    return n;
  };
  char best = ',';
  for (const char c : {';', '\t'})
    if (count(c) > count(best)) best = c;
  return best;
}

expected<std::size_t> csv_column(const std::string& word, const std::vector<std::string>& names) {
  if (const auto at = std::find(names.begin(), names.end(), word); at != names.end())
    return static_cast<std::size_t>(at - names.begin());
  std::ptrdiff_t number = 0;
  const auto n = static_cast<std::ptrdiff_t>(names.size());
  const auto [end, bad] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (bad == std::errc{} && end == word.data() + word.size() && number >= -n && number < n)
    return static_cast<std::size_t>(number < 0 ? n + number : number);
  return unexpected(
      error("there is no column " + in_quotes(word) + did_you_mean(word, names) + " (columns: " + csv_column_list(names) + ")"));
}

std::string csv_column_list(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (std::size_t k = 0; k < std::min(names.size(), names_shown); ++k) shown.push_back(in_quotes(names[k]));
  return joined(shown) + (names.size() > shown.size() ? " and " + std::to_string(names.size() - shown.size()) + " more" : "");
}

}  // namespace troupe
