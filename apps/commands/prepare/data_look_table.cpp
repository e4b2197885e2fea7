// A table as data for `troupe new --data`: separator, header, the label, the columns of an example.
#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "apps/commands/prepare/new.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/data/csv_file.hpp"
#include "runtime/data/file_bytes.hpp"

namespace troupe::data_look {
namespace {

// Of a table this much is read, and this much of it parsed once there are `least_records` rows.
constexpr std::uint64_t most_table_bytes = std::uint64_t{64} << 20, most_parsed_bytes = std::uint64_t{16} << 20;
constexpr std::size_t least_records = 100, least_rows = 5;

// Not a number of a table, but one without its commas.
bool is_number_with_comma(const std::string& field) {
  auto without = field;
  return std::erase(without, ',') > 0 && csv_number(without).has_value();
}

struct column_facts {
  std::string name;
  std::size_t missing = 0, numbers = 0, texts = 0;
  std::size_t commas = 0;               // of the texts: numbers with a comma, as 21,5 or 1,250
  bool whole = true, ascending = true;  // all numbers are integers; each is the one before + 1
  double last = 0, least = 0;
  std::set<std::string> distinct;  // at most most_named_classes + 1

  void add(const std::string& field) {
    if (is_missing_csv_field(field)) {
      ++missing;
      return;
    }
    if (distinct.size() <= most_named_classes) distinct.insert(field);
    const auto number = csv_number(field);
    if (!number) {  // also one that is not finite, which the source refuses
      ++texts;
      commas += is_number_with_comma(field) ? 1 : 0;
      return;
    }
    const double v = *number;
    whole = whole && v == std::floor(v);
    ascending = ascending && (numbers == 0 || v == last + 1);
    least = numbers == 0 ? v : std::min(least, v);
    last = v;
    ++numbers;
  }
  bool is_number() const { return texts == 0 && numbers > 0; }
  bool has_commas() const { return commas > 0 && commas == texts; }
  // A number of the row says nothing about it.
  bool is_row_number(std::size_t rows) const {
    const auto word = lower(name);
    return is_number() && whole && ascending && rows > 2 &&
           (word.empty() || word == "id" || word == "index" || word.starts_with("unnamed"));
  }
};

struct table_facts {
  char separator = ',';
  bool header = false;
  std::size_t rows = 0;
  bool more = false;  // the file has further rows, which were not read
  std::vector<column_facts> columns;
};

bool looks_like_header(const std::vector<std::string>& first, const std::vector<std::string>& second) {
  const auto number = [](const std::string& f) { return is_csv_number(f); };
  if (std::none_of(first.begin(), first.end(), number)) return true;
  for (std::size_t k = 0; k < std::min(first.size(), second.size()); ++k)
    if (!number(first[k]) && !is_missing_csv_field(first[k]) && number(second[k])) return true;
  return false;
}

// The complete records at the beginning of a file. Sets t.separator, and t.more if there are
// others.
expected<std::vector<std::uint8_t>> beginning_of_table(const std::string& path, table_facts& t) {
  const auto file = open_bytes(path);
  if (!file) return unexpected(file.error().in(path));
  const auto all = (*file)->size();
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(std::min(all, most_table_bytes)));
  if (const auto fine = (*file)->read(0, bytes.data(), bytes.size()); !fine) return unexpected(fine.error().in(path));
  t.separator = likely_csv_separator({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (bytes.size() == all) return bytes;
  t.more = true;
  bytes.resize(complete_csv_records(bytes, t.separator));
  if (!bytes.empty()) return bytes;
  return unexpected(error(path + ": more than 64 MiB without the end of a record"));
}

// Takes the next record of a table from `text`, and adds its lines to `lines`. Empty: there is
// none.
expected<std::vector<std::string>> next_record(const std::string& path, std::span<const std::uint8_t>& text, char separator,
                                               std::uint64_t& lines) {
  auto r = parse_csv_first_line(text, separator);
  if (!r && r.error().line == 0) {  // empty lines
    text = {};
    return std::vector<std::string>();
  }
  if (!r) return unexpected(error(path + ":" + std::to_string(lines + r.error().line) + ": " + r.error().text));
  lines += r->lines;
  text = text.subspan(r->bytes);
  return std::move(r->fields);
}

expected<table_facts> facts_of_table(const std::string& path) {
  table_facts t;
  const auto bytes = beginning_of_table(path, t);
  if (!bytes) return unexpected(bytes.error());
  std::span<const std::uint8_t> text = *bytes;
  std::uint64_t lines = 0;
  const auto add = [&t](const std::vector<std::string>& record) {
    ++t.rows;
    for (std::size_t k = 0; k < t.columns.size(); ++k) t.columns[k].add(record[k]);
  };
  std::vector<std::string> first;  // until the second one says whether it is a header
  while (t.rows < most_records && (t.rows < least_records || bytes->size() - text.size() < most_parsed_bytes)) {
    auto record = next_record(path, text, t.separator, lines);
    if (!record) return unexpected(record.error());
    if (record->empty()) break;
    if (t.columns.empty()) {
      t.columns.resize(record->size());
      first = *std::move(record);
      continue;
    }
    if (record->size() != t.columns.size())
      return unexpected(error(path + ":" + std::to_string(lines) + ": " + std::to_string(record->size()) +
                              " fields, but the first line has " + std::to_string(t.columns.size())));
    if (!first.empty()) {
      t.header = looks_like_header(first, *record);
      for (std::size_t k = 0; k < t.columns.size(); ++k) t.columns[k].name = t.header ? first[k] : std::to_string(k);
      if (!t.header) add(first);
      first.clear();
    }
    add(*record);
  }
  t.more = t.more || !text.empty();
  if (!first.empty()) t.rows = 1;
  if (t.rows >= least_rows) return t;
  return unexpected(error(path + ": it has " + counted(t.rows, t.rows == 1 ? "row" : "rows") + "; training needs at least " +
                          std::to_string(least_rows)));
}

expected<std::size_t> label_of_table(const std::string& path, const table_facts& t, const std::string& wanted) {
  std::vector<std::string> names;
  for (const auto& c : t.columns) names.push_back(c.name);
  if (!wanted.empty()) {
    const auto at = csv_column(wanted, names);
    return at ? expected<std::size_t>(*at) : unexpected(error(path + ": --label: " + at.error().text));
  }
  for (const char* usual : {"label", "class", "target", "y", "species", "category", "outcome"})
    for (std::size_t k = 0; k < names.size(); ++k)
      if (lower(names[k]) == usual) return k;
  return names.size() - 1;
}

bool names_classes(const column_facts& c, std::size_t rows) {
  if (c.numbers == 0) return true;
  return c.is_number() && c.whole && c.distinct.size() <= most_classes_of_numbers && c.distinct.size() * 5 <= rows;
}

constexpr const char* without_commas = "write them as 21.5 and 1250 to use them";

// Adds the label to the options.
expected<void> choose_label(const std::string& path, const table_facts& t, const column_facts& c, looked_at& out) {
  const std::string shown = "column " + in_quotes(c.name), other = "; --label COLUMN names the one to predict";
  const bool many = c.distinct.size() > most_named_classes || c.distinct.size() * 2 > t.rows, mixed = c.numbers > 0 && c.texts > 0;
  if (c.has_commas() && (many || mixed))
    return unexpected(error(path + ": " + shown + " has numbers with a comma; " + without_commas));
  if (mixed) return unexpected(error(path + ": " + shown + " has numbers and texts" + other));
  if (c.numbers + c.texts == 0) return unexpected(error(path + ": " + shown + " is empty" + other));
  if (!names_classes(c, t.rows)) {
    out.values.values["targets"] = std::vector<std::string>{c.name};
    out.seen.push_back("predicts the number in " + shown);
    return {};
  }
  if (many) return unexpected(error(path + ": " + shown + " has a text of its own in most rows, so it names no classes" + other));
  if (c.distinct.size() < 2) return unexpected(error(path + ": " + shown + " has the same value in all rows" + other));
  out.values.values["label"] = c.name;
  std::vector<std::string> names(c.distinct.begin(), c.distinct.end());
  if (c.texts == 0) {  // numbers that are not 0, 1, 2, ... are names
    std::sort(names.begin(), names.end(), [](const auto& x, const auto& y) { return csv_number(x) < csv_number(y); });
    if (c.least != 0 || csv_number(names.back()) != static_cast<double>(names.size() - 1)) out.values.values["class_names"] = names;
  }
  const bool unclear = std::any_of(names.begin(), names.end(), [](const auto& n) { return n.find(',') != std::string::npos; });
  if (names.size() > 8) names.resize(8), names.emplace_back("...");
  for (auto& n : names)
    if (unclear && n != "...") n = in_quotes(n);
  out.seen.push_back("predicts one of " + counted(c.distinct.size(), "classes in ") + shown + ": " + joined(names));
  return {};
}

}  // namespace

expected<looked_at> look_at_table(const std::string& path, const std::string& label) {
  const auto facts = facts_of_table(path);
  if (!facts) return unexpected(facts.error());
  const auto& t = *facts;
  const auto at = label_of_table(path, t, label);
  if (!at) return unexpected(at.error());
  looked_at out{"csv", {}, {}};
  auto& v = out.values.values;
  v["path"] = path;
  if (t.separator != ',') v["separator"] = t.separator == '\t' ? std::string("tab") : std::string(1, t.separator);
  if (!t.header) v["header"] = false;
  v["test_fraction"] = test_share;
  out.seen.push_back(std::string("a table of ") + (t.more ? "at least " : "") + counted(t.rows, "rows and ") +
                     counted(t.columns.size(), "columns, ") + (t.header ? "the first line names them" : "without a line of names"));
  if (const auto fine = choose_label(path, t, t.columns[*at], out); !fine) return unexpected(fine.error());
  std::vector<std::string> ignored, quoted, commas, used;
  bool missing = false;
  for (std::size_t k = 0; k < t.columns.size(); ++k) {
    const auto& c = t.columns[k];
    if (k == *at) continue;
    if (!c.is_number() || c.is_row_number(t.rows)) {
      ignored.push_back(c.name);
      (c.has_commas() ? commas : quoted).push_back(in_quotes(c.name));
    } else {
      used.push_back(in_quotes(c.name));
      missing = missing || c.missing > 0;
    }
  }
  const auto have_commas = joined(commas) + ": numbers with a comma; " + without_commas;
  if (used.empty())
    return unexpected(error(path + ": no column but the label has numbers" + (commas.empty() ? "" : " (" + have_commas + ")")));
  if (used.size() > 8) used.resize(8), used.emplace_back("...");
  out.seen.push_back("from " + joined(used));
  if (!ignored.empty()) {
    v["ignore"] = ignored;
    if (!quoted.empty()) out.seen.push_back("ignores " + joined(quoted) + ": no numbers, or numbers of rows");
    if (!commas.empty()) out.seen.push_back("ignores " + have_commas);
  }
  if (t.columns[*at].missing > 0) {
    v["missing"] = std::string("drop");
    out.seen.push_back("leaves out rows with missing fields (" + counted(t.columns[*at].missing, "labels are missing)"));
  } else if (missing) {
    v["missing"] = std::string("mean");
    out.seen.push_back("missing fields become the mean of their column");
  }
  return out;
}

}  // namespace troupe::data_look
