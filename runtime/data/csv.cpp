// csv: rows of numbers in text files (csv_file.hpp), kept in memory in double. One column may be
// the label, or several the targets. The others are the example, in file order: value * scale -
// mean of their column, rounded once to the tensor's type.
#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

#include "ops/option_specs.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/data/csv_file.hpp"
#include "runtime/data/file_bytes.hpp"
#include "runtime/data/source_options.hpp"
#include "runtime/data/stock.hpp"
#include "runtime/data/test_split.hpp"
#include "runtime/memory/process_memory.hpp"

namespace troupe {
namespace {

constexpr std::int64_t max_classes = 1 << 24;

struct rows {
  std::vector<double> values;  // [rows][columns without the label], scaled
  std::vector<std::int32_t> labels;
  std::vector<double> targets;  // [rows][columns of targets], as they are
};

// The columns that are no input.
struct label_columns {
  std::ptrdiff_t label = -1;         // -1: none
  std::vector<std::size_t> targets;  // in the order of the option
};

class csv_source final : public source {
 public:
  csv_source(std::array<rows, 2> parts, shape example, std::int64_t classes, std::int64_t targets)
      : parts_(std::move(parts)), example_(example), classes_(classes), targets_(targets) {}

  shape example() const override { return example_; }
  std::int64_t classes() const override { return classes_; }
  bool targets() const override { return targets_ > 0; }
  shape label() const override { return targets_ > 0 ? shape{targets_} : shape{}; }
  std::int64_t size(split s) const override { return static_cast<std::int64_t>(part(s).values.size()) / example_.count(); }

  void read(split s, const std::vector<std::int64_t>& indices, tensor& data, tensor& label) const override {
    assert(data.count() == static_cast<std::int64_t>(indices.size()) * example_.count());
    if (data.type() == dtype::f64)
      copy(s, indices, data.mutable_data<double>());
    else
      copy(s, indices, data.mutable_data<float>());
    if (label.type() == dtype::f64) return copy_targets(s, indices, label.mutable_data<double>());
    if (label.type() == dtype::f32) return copy_targets(s, indices, label.mutable_data<float>());
    auto* out = label.mutable_data<std::int32_t>();
    for (auto i : indices) *out++ = i < 0 ? -1 : classes_ == 0 ? 0 : part(s).labels[static_cast<std::size_t>(i)];
  }

 private:
  const rows& part(split s) const { return parts_[s == split::train ? 0 : 1]; }

  template <class T>
  void copy(split s, const std::vector<std::int64_t>& indices, T* out) const {
    const auto n = example_.count();
    for (auto i : indices) {
      assert(i < size(s));
      const auto* in = part(s).values.data() + std::max<std::int64_t>(i, 0) * n;
      for (std::int64_t k = 0; k < n; ++k) *out++ = i < 0 ? T{0} : static_cast<T>(in[k]);
    }
  }

  template <class T>
  void copy_targets(split s, const std::vector<std::int64_t>& indices, T* out) const {
    for (auto i : indices) {
      const auto* in = part(s).targets.data() + std::max<std::int64_t>(i, 0) * targets_;
      for (std::int64_t k = 0; k < targets_; ++k) *out++ = i < 0 ? T{0} : static_cast<T>(in[k]);
    }
  }

  std::array<rows, 2> parts_;
  shape example_;
  std::int64_t classes_, targets_;
};

}  // namespace

char csv_separator_of(const options& o) {
  const auto& s = o.text("separator");
  if (s == "tab") return '\t';
  if (s == "space") return ' ';
  if (s.size() != 1 || s[0] == '"' || s[0] == '\n' || s[0] == '\r' || s[0] == '.' || s[0] == '+' || s[0] == '-' ||
      std::isalnum(static_cast<unsigned char>(s[0])))
    throw option_error(
        "separator",
        "option 'separator' must be one character that does not occur in numbers, or \"tab\" or \"space\", not " + in_quotes(s));
  return s[0];
}

namespace {

struct read_table {
  csv_table table;
  std::string path, key;
};

read_table read_file_of(const options& o, const char* key) {
  read_table out{{}, o.text(key), key};
  check_path_text(key, out.path);
  csv_format f;
  f.separator = csv_separator_of(o);
  f.header = o.flag("header");
  f.ignore = o.get<std::vector<std::string>>("ignore");
  // A quarter of the free memory: it must hold the file, its numbers, and a copy of these when the
  // vector grows or a split is separated.
  const auto allowed = static_cast<std::uint64_t>(o.integer("memory_mib")) << 20, left = memory_left();
  const auto most = std::min(allowed, left / 4);
  f.max_values = most / sizeof(double);
  std::vector<std::uint8_t> bytes;
  if (const auto fine = read_whole(out.path, bytes, most); !fine) throw option_error(key, out.path + ": " + fine.error().text);
  auto r = parse_csv(bytes, f);
  if (!r) {
    const auto& e = r.error();
    throw option_error(
        key, out.path + ":" + (e.line > 0 ? std::to_string(e.line) + ":" : "") + " " + e.text +
                 (e.full && most < allowed ? ", or than a quarter of the " + std::to_string(left) + " bytes that are left" : ""));
  }
  out.table = *std::move(r);
  return out;
}

// Index of a column, given by name or by number (negative: from the end).
std::size_t column_of(const char* key, const std::string& word, const read_table& t) {
  const auto& names = t.table.names;
  if (const auto at = std::find(names.begin(), names.end(), word); at != names.end())
    return static_cast<std::size_t>(at - names.begin());
  std::ptrdiff_t number = 0;
  const auto n = static_cast<std::ptrdiff_t>(names.size());
  const auto [end, bad] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (bad == std::errc{} && end == word.data() + word.size() && number >= -n && number < n)
    return static_cast<std::size_t>(number < 0 ? n + number : number);
  throw option_error(key, t.path + ": there is no column " + in_quotes(word) + " (" + std::to_string(n) + " columns are read)");
}

label_columns label_columns_of(const options& o, const read_table& t) {
  label_columns c;
  const auto& targets = o.get<std::vector<std::string>>("targets");
  if (!o.text("label").empty() && !targets.empty())
    throw option_error("targets", "label (classes) and targets (values) exclude each other");
  if (!o.text("label").empty()) c.label = static_cast<std::ptrdiff_t>(column_of("label", o.text("label"), t));
  for (const auto& word : targets) {
    const auto at = column_of("targets", word, t);
    if (std::find(c.targets.begin(), c.targets.end(), at) != c.targets.end())
      throw option_error("targets", t.path + ": targets names column " + in_quotes(word) + " twice");
    c.targets.push_back(at);
  }
  return c;
}

std::int32_t label_of(double v, const read_table& t, std::size_t row) {
  if (v >= 0 && v < static_cast<double>(max_classes) && v == std::floor(v)) return static_cast<std::int32_t>(v);
  throw option_error(t.key, t.path + ":" + std::to_string(t.table.lines[row]) + ": the label is not a class number (0, 1, 2, ...)");
}

// `key`'s numbers by column: one for all columns, or one for each; `otherwise` if the list is
// empty.
std::vector<double> per_column(const options& o, const char* key, double otherwise, std::size_t columns) {
  const auto& list = o.get<std::vector<double>>(key);
  if (list.empty()) return std::vector<double>(columns, otherwise);
  if (list.size() == 1) return std::vector<double>(columns, list[0]);
  if (list.size() != columns)
    throw option_error(key, std::string(key) + " has " + std::to_string(list.size()) + " numbers, but an example has " +
                                std::to_string(columns) + " columns");
  return list;
}

// Removes the label and the targets, and scales the rest in place.
rows examples_of(read_table& t, const label_columns& of, const options& o) {
  rows out;
  const auto columns = t.table.names.size(), kept = columns - (of.label >= 0 ? 1 : 0) - of.targets.size();
  if (kept == 0)
    throw option_error(of.label >= 0 ? "label" : "targets",
                       t.path + (of.label >= 0 ? ": the label is the only column" : ": the targets are the only columns"));
  const auto scale = per_column(o, "scale", 1.0, kept), mean = per_column(o, "mean", 0.0, kept);
  std::vector<bool> taken(columns);
  for (const auto c : of.targets) taken[c] = true;
  if (of.label >= 0) taken[static_cast<std::size_t>(of.label)] = true;
  auto* to = t.table.values.data();  // never ahead of `in`
  const auto* in = t.table.values.data();
  for (std::size_t r = 0; r < t.table.rows(); ++r, in += columns) {
    if (of.label >= 0) out.labels.push_back(label_of(in[of.label], t, r));
    for (const auto c : of.targets) out.targets.push_back(in[c]);
    for (std::size_t c = 0, k = 0; c < columns; ++c) {
      if (taken[c]) continue;
      *to++ = in[c] * scale[k] - mean[k];
      ++k;
    }
  }
  out.values = std::move(t.table.values);
  out.values.resize(t.table.rows() * kept);
  return out;
}

// Moves a fraction of the rows to the test split.
std::array<rows, 2> split_off(rows all, std::size_t columns, double fraction) {
  const auto n = all.values.size() / columns;
  const auto tested = chosen_for_test(n, fraction);
  std::array<rows, 2> out;
  for (std::size_t r = 0; r < n; ++r) {
    auto& to = out[tested[r] ? 1 : 0];
    const auto* row = all.values.data() + r * columns;
    to.values.insert(to.values.end(), row, row + columns);
    if (!all.labels.empty()) to.labels.push_back(all.labels[r]);
    const auto targets = all.targets.size() / n, first = r * targets;
    for (std::size_t k = first; k < first + targets; ++k) to.targets.push_back(all.targets[k]);
  }
  return out;
}

shape example_shape(const options& o, std::size_t columns, const std::string& path) {
  const auto n = static_cast<std::int64_t>(columns);
  return given_shape(o, n, path + ": " + std::to_string(n) + " columns do not").value_or(shape{n});
}

std::int64_t classes_of(const options& o, const std::array<rows, 2>& parts, const read_table& t, bool labelled) {
  if (!labelled) return 0;
  auto classes = o.integer("classes");
  const auto most = [](const rows& r) { return r.labels.empty() ? -1 : *std::max_element(r.labels.begin(), r.labels.end()); };
  if (classes == 0) classes = most(parts[0]) + 1;
  for (const auto& p : parts)
    if (most(p) >= classes) throw option_error(t.key, t.path + ": a label is not below classes = " + std::to_string(classes));
  return classes;
}

std::shared_ptr<const source> open_csv(const options& o, std::uint64_t) {
  auto train = read_file_of(o, "path");
  const auto of = label_columns_of(o, train);
  std::array<rows, 2> parts;
  parts[0] = examples_of(train, of, o);
  const auto columns = train.table.names.size() - (of.label >= 0 ? 1 : 0) - of.targets.size();
  const auto example = example_shape(o, columns, train.path);
  const auto fraction = o.real("test_fraction");
  const read_table* blamed = &train;
  read_table test;
  if (!o.text("test_path").empty()) {
    if (fraction > 0) throw option_error("test_fraction", "test_fraction and test_path exclude each other");
    test = read_file_of(o, "test_path");
    if (test.table.names != train.table.names)
      throw option_error("test_path", test.path + ": its " + std::to_string(test.table.names.size()) + " columns differ from the " +
                                          std::to_string(train.table.names.size()) + " of " + train.path);
    parts[1] = examples_of(test, of, o);
    blamed = &test;
  } else if (fraction > 0) {
    parts = split_off(std::move(parts[0]), columns, fraction);
  }
  const auto classes = classes_of(o, parts, *blamed, of.label >= 0);
  return std::make_shared<csv_source>(std::move(parts), example, classes, static_cast<std::int64_t>(of.targets.size()));
}

option_specs csv_specs() {
  using kind = option_kind;
  const option_value none{std::string{}}, no_numbers{std::vector<double>{}};
  return {option_of("path", kind::text, std::nullopt, "file of the training rows"),
          option_of("test_path", kind::text, none, "file of the test rows, with the same columns"),
          real_option("test_fraction", 0.0, "instead of test_path: this fraction of the rows is the test split", 0.0, 0.9),
          option_of("label", kind::text, none,
                    "column of the class numbers: its name, or its number (from 0; -1: the last); empty: no labels"),
          option_of("targets", kind::texts, option_value{std::vector<std::string>{}},
                    "instead of label: columns of values to predict (regression), by name or number; not scaled"),
          flag_option("header", true, "the first line names the columns"),
          option_of("separator", kind::text, std::string(","), "one character, or \"tab\" or \"space\""),
          option_of("ignore", kind::texts, option_value{std::vector<std::string>{}},
                    "columns that are not read, by name or number; they may contain anything"),
          bounded(option_of("shape", kind::integers, option_value{std::vector<std::int64_t>{}},
                            "shape of an example, outermost first; empty: one axis"),
                  1),
          bounded(option_of("classes", kind::integer, std::int64_t{0}, "number of classes; 0: the largest training label + 1"), 0,
                  max_classes),
          option_of("scale", kind::reals, no_numbers, "value = number * scale - mean, one for all or one for each column; none: 1"),
          option_of("mean", kind::reals, no_numbers, "subtracted after scaling, likewise; none: 0"),
          bounded(option_of("memory_mib", kind::integer, std::int64_t{4096},
                            "maximum memory for the numbers of one file, and maximum size of the file"),
                  1, 1e6)};
}

}  // namespace

source_type csv_source_type() {
  const auto files = [](const options& o) {
    return std::vector<source_file>{{"path", o.text("path")}, {"test_path", o.text("test_path")}};
  };
  return {"csv", "Rows of numbers in text files; one column may be the label, or several the targets. Kept in memory.", csv_specs(),
          open_csv, files};
}

}  // namespace troupe
