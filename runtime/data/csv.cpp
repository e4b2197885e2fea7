// csv: rows of numbers in text files (csv_file.hpp), kept in memory in double. One column may be
// the label, as numbers or names of classes, or several the targets. The others are the example, in
// file order: value * scale - mean of their column, rounded once to the tensor's type.
#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstring>
#include <utility>

#include "ops/option_specs.hpp"
#include "runtime/base/printable.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/data/csv_file.hpp"
#include "runtime/data/file_bytes.hpp"
#include "runtime/data/label_rule.hpp"
#include "runtime/data/source_options.hpp"
#include "runtime/data/stock.hpp"
#include "runtime/data/test_split.hpp"
#include "runtime/memory/process_memory.hpp"

namespace troupe {
namespace {

constexpr std::int64_t max_classes = 1 << 24;

struct rows {
  std::vector<double> values;  // [rows][columns without the label], NaN: missing
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
  csv_source(std::array<rows, 2> parts, shape example, std::int64_t classes, std::vector<std::string> class_names,
             table_layout layout, std::int64_t targets)
      : parts_(std::move(parts)),
        example_(example),
        classes_(classes),
        class_names_(std::move(class_names)),
        layout_(std::make_shared<const table_layout>(std::move(layout))),
        targets_(targets) {
    const auto& labels = parts_[0].labels;
    ignores_ = std::any_of(labels.begin(), labels.end(), [](std::int32_t l) { return l < 0; });
  }

  shape example() const override { return example_; }
  std::int64_t classes() const override { return classes_; }
  std::vector<std::string> class_names() const override { return class_names_; }
  std::shared_ptr<const table_layout> table() const override { return layout_; }
  bool targets() const override { return targets_ > 0; }
  bool ignores_labels() const override { return ignores_; }
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
  std::int64_t classes_;
  std::vector<std::string> class_names_;
  std::shared_ptr<const table_layout> layout_;
  std::int64_t targets_;
  bool ignores_ = false;
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

enum class on_missing : std::uint8_t { error, drop, mean, value };
on_missing on_missing_of(const options& o) {
  const auto* word = std::get_if<std::string>(&o.values.find("missing")->second);
  if (!word) return on_missing::value;
  return *word == "drop" ? on_missing::drop : *word == "mean" ? on_missing::mean : on_missing::error;
}

// The option to blame for an error of parse_csv, and what to do about it.
std::pair<std::string, std::string> advice_of(const csv_error& e, const char* key) {
  switch (e.of) {
    case csv_error::part::ignore: return {"ignore", ""};
    case csv_error::part::label: return {"label", ""};
    case csv_error::part::missing: return {key, "; missing = \"drop\", \"mean\" or a number accepts it"};
    default: return {key, ""};
  }
}

// `class_names`: those that labels may have; empty: any.
read_table read_file_of(const options& o, const char* key, std::vector<std::string> class_names) {
  read_table out{{}, o.text(key), key};
  check_path_text(key, out.path);
  csv_format f;
  f.separator = csv_separator_of(o);
  f.header = o.flag("header");
  f.ignore = o.get<std::vector<std::string>>("ignore");
  f.label = o.text("label");
  f.class_names = std::move(class_names);
  f.missing = on_missing_of(o) != on_missing::error;
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
    const auto [blamed, advice] = advice_of(e, key);
    throw option_error(
        blamed,
        out.path + ":" + (e.line > 0 ? std::to_string(e.line) + ":" : "") + " " + e.text + advice +
            (e.full && most < allowed ? ", or than a quarter of the " + std::to_string(left) + " bytes that are left" : ""));
  }
  out.table = *std::move(r);
  return out;
}

label_columns label_columns_of(const options& o, const read_table& t) {
  label_columns c;
  const auto& targets = o.get<std::vector<std::string>>("targets");
  if (!o.text("label").empty() && !targets.empty())
    throw option_error("targets", "label (classes) and targets (values) exclude each other");
  if (!o.text("label").empty()) c.label = static_cast<std::ptrdiff_t>(t.table.label);
  for (const auto& word : targets) {
    const auto found = csv_column(word, t.table.names);
    if (!found) throw option_error("targets", t.path + ": " + found.error().text);
    if (std::find(c.targets.begin(), c.targets.end(), *found) != c.targets.end())
      throw option_error("targets", t.path + ": targets names column " + in_quotes(word) + " twice");
    c.targets.push_back(*found);
  }
  return c;
}

[[noreturn]] void wrong_row(const read_table& t, std::size_t row, const std::string& text) {
  throw option_error(t.key, t.path + ":" + std::to_string(t.table.lines[row]) + ": " + text);
}

std::int32_t label_of(double v, label_rule& rule, const read_table& t, std::size_t row) {
  if (const auto label = rule.of(v)) return *label;
  wrong_row(t, row, "the label is not a class number (0, 1, 2, ...)");
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

// Whether a row is an example. One without a label or target is none: it is dropped, or an error.
bool keeps_row(const read_table& t, const label_columns& of, std::size_t row, on_missing how) {
  const auto columns = t.table.names.size();
  const auto* in = t.table.values.data() + row * columns;
  if (how == on_missing::drop) {
    for (std::size_t c = 0; c < columns; ++c)
      if (std::isnan(in[c]) && (static_cast<std::ptrdiff_t>(c) != of.label || t.table.classes.empty())) return false;
    return t.table.classes.empty() || t.table.classes[row] >= 0;
  }
  if (of.label >= 0 && (t.table.classes.empty() ? std::isnan(in[of.label]) : t.table.classes[row] < 0))
    wrong_row(t, row, "the label is missing; missing = \"drop\" leaves such rows out");
  for (const auto c : of.targets)
    if (std::isnan(in[c]))
      wrong_row(t, row, "column " + in_quotes(t.table.names[c]) + ": a target is missing; missing = \"drop\" leaves such rows out");
  return true;
}

std::vector<bool> columns_taken(const read_table& t, const label_columns& of) {
  std::vector<bool> taken(t.table.names.size());
  for (const auto c : of.targets) taken[c] = true;
  if (of.label >= 0) taken[static_cast<std::size_t>(of.label)] = true;
  return taken;
}

// Removes the label, the targets, and rows that are no examples.
rows examples_of(read_table& t, const label_columns& of, label_rule& rule, on_missing how) {
  rows out;
  const auto columns = t.table.names.size(), kept = columns - (of.label >= 0 ? 1 : 0) - of.targets.size();
  if (kept == 0)
    throw option_error(of.label >= 0 ? "label" : "targets",
                       t.path + (of.label >= 0 ? ": the label is the only column" : ": the targets are the only columns"));
  const auto taken = columns_taken(t, of);
  auto* to = t.table.values.data();  // never ahead of `in`
  const auto* in = t.table.values.data();
  for (std::size_t r = 0; r < t.table.rows(); ++r, in += columns) {
    if (how != on_missing::error && !keeps_row(t, of, r, how)) continue;
    if (of.label >= 0) out.labels.push_back(t.table.classes.empty() ? label_of(in[of.label], rule, t, r) : t.table.classes[r]);
    for (const auto c : of.targets) out.targets.push_back(in[c]);
    for (std::size_t c = 0; c < columns; ++c)
      if (!taken[c]) *to++ = in[c];
  }
  const auto numbers = static_cast<std::size_t>(to - t.table.values.data());
  if (numbers == 0) throw option_error(t.key, t.path + ": a field is missing in every row, so missing = \"drop\" leaves none");
  out.values = std::move(t.table.values);
  out.values.resize(numbers);
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

// What missing fields become: the means of the training rows, or the value of the option. Empty:
// none are missing.
std::vector<double> fill_of(const options& o, const rows& train, const read_table& t, const std::vector<std::string>& columns) {
  const auto how = on_missing_of(o);
  if (how == on_missing::value) return std::vector<double>(columns.size(), o.real("missing"));
  if (how != on_missing::mean) return {};
  std::vector<double> sums(columns.size()), counts(columns.size());
  for (std::size_t k = 0; k < train.values.size(); ++k) {
    if (std::isnan(train.values[k])) continue;
    sums[k % columns.size()] += train.values[k];
    counts[k % columns.size()] += 1;
  }
  for (std::size_t c = 0; c < columns.size(); ++c) {
    if (counts[c] == 0)
      throw option_error(
          t.key, t.path + ": column " + in_quotes(columns[c]) + " has no number in the training rows, so no mean; ignore it");
    sums[c] /= counts[c];
  }
  return sums;
}

// Fills missing fields, and scales.
void finish(rows& part, const std::vector<double>& fill, const std::vector<double>& scale, const std::vector<double>& mean) {
  const auto columns = scale.size();
  for (std::size_t k = 0, c = 0; k < part.values.size(); ++k, c = c + 1 == columns ? 0 : c + 1) {
    auto& v = part.values[k];
    if (std::isnan(v) && !fill.empty()) v = fill[c];
    v = v * scale[c] - mean[c];
  }
}

shape example_shape(const options& o, std::size_t columns, const std::string& path) {
  const auto n = static_cast<std::int64_t>(columns);
  return given_shape(o, n, path + ": " + std::to_string(n) + " columns do not").value_or(shape{n});
}

std::int64_t classes_of(const options& o, const std::array<rows, 2>& parts, const read_table& t, bool labelled,
                        const std::vector<std::string>& names) {
  if (!labelled) return 0;
  auto classes = o.integer("classes");
  const auto named = static_cast<std::int64_t>(names.size());
  if (classes != 0 && named != 0 && classes != named)
    throw option_error("classes", "classes = " + std::to_string(classes) + ", but the labels have " + std::to_string(named) +
                                      " names; class_names may list more of them");
  if (named != 0) return named;
  const auto most = [](const rows& r) { return r.labels.empty() ? -1 : *std::max_element(r.labels.begin(), r.labels.end()); };
  if (classes == 0) classes = most(parts[0]) + 1;
  for (const auto& p : parts)
    if (most(p) >= classes) throw option_error(t.key, t.path + ": a label is not below classes = " + std::to_string(classes));
  return classes;
}

std::vector<std::string> given_class_names(const options& o) {
  const auto& names = o.get<std::vector<std::string>>("class_names");
  if (!names.empty() && o.text("label").empty())
    throw option_error("class_names", "class_names are of the column `label`, which is not set");
  auto sorted = names;
  std::sort(sorted.begin(), sorted.end());
  if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
    throw option_error("class_names", "class_names has " + in_quotes(*twice) + " twice");
  for (const auto& n : names)
    if (const auto fine = check_name(n); !fine) throw option_error("class_names", fine.error().text);
  return names;
}

// Predictions find columns by name, and net files, which are JSON, keep only UTF-8.
void check_column_names(const read_table& t) {
  for (std::size_t c = 0; c < t.table.names.size(); ++c)
    for (std::string_view left = t.table.names[c]; !left.empty(); left.remove_prefix(utf8_length(left)))
      if (utf8_length(left) == 0)
        throw option_error(t.key, t.path + ": the name of column " + std::to_string(c + 1) +
                                      " of those that are read is not UTF-8; save the file as UTF-8, or ignore the column");
}

table_layout layout_of(const options& o, const read_table& t, const label_columns& of) {
  table_layout out{csv_separator_of(o),
                   o.flag("header"),
                   {},
                   o.get<std::vector<std::string>>("targets"),
                   o.get<std::vector<std::string>>("ignore"),
                   {}};
  if (of.label >= 0) out.labels.push_back(o.text("label"));
  const auto taken = columns_taken(t, of);
  for (std::size_t c = 0; c < taken.size(); ++c)
    if (!taken[c]) out.inputs.push_back(t.table.names[c]);
  return out;
}

std::shared_ptr<const source> open_csv(const options& o, std::uint64_t) {
  auto train = read_file_of(o, "path", given_class_names(o));
  check_column_names(train);
  const auto names = train.table.class_names;
  const auto of = label_columns_of(o, train);
  const auto how = on_missing_of(o);
  std::array<rows, 2> parts;
  label_rule rule(o, static_cast<std::int64_t>(max_classes));
  parts[0] = examples_of(train, of, rule, how);
  auto layout = layout_of(o, train, of);
  const auto columns = layout.inputs.size();
  const auto example = example_shape(o, columns, train.path);
  const auto fraction = o.real("test_fraction");
  const read_table* blamed = &train;
  read_table test;
  if (!o.text("test_path").empty()) {
    if (fraction > 0) throw option_error("test_fraction", "test_fraction and test_path exclude each other");
    test = read_file_of(o, "test_path", names);
    if (test.table.names != train.table.names)
      throw option_error("test_path", test.path + ": its " + std::to_string(test.table.names.size()) + " columns differ from the " +
                                          std::to_string(train.table.names.size()) + " of " + train.path);
    if (test.table.class_names != names)
      throw option_error("test_path", test.path + ": its labels are names of classes, those of " + train.path + " are numbers");
    parts[1] = examples_of(test, of, rule, how);
    blamed = &test;
  } else if (fraction > 0) {
    parts = split_off(std::move(parts[0]), columns, fraction);
  }
  if (of.label >= 0 && names.empty() && o.integer("classes") == 0) rule.check_zero("label", train.path);
  layout.fill = fill_of(o, parts[0], train, layout.inputs);
  const auto scale = per_column(o, "scale", 1.0, columns), mean = per_column(o, "mean", 0.0, columns);
  for (auto& p : parts) finish(p, layout.fill, scale, mean);
  const auto classes = classes_of(o, parts, *blamed, of.label >= 0, names);
  return std::make_shared<csv_source>(std::move(parts), example, classes, names, std::move(layout),
                                      static_cast<std::int64_t>(of.targets.size()));
}

option_spec missing_option() {
  auto s = option_of("missing", option_kind::real, option_value{std::string("error")},
                     "missing fields (empty, or NA, N/A, NaN, null, None, ?): an error; drop the row; the column's mean over the "
                     "training rows; or this number");
  s.choices = {"error", "drop", "mean"};
  return s;
}

option_specs csv_specs() {
  using kind = option_kind;
  const option_value none{std::string{}}, no_numbers{std::vector<double>{}};
  return {option_of("path", kind::text, std::nullopt, "file of the training rows"),
          option_of("test_path", kind::text, none, "file of the test rows, with the same columns"),
          real_option("test_fraction", 0.0, "instead of test_path: this fraction of the rows is the test split", 0.0, 0.9),
          option_of("label", kind::text, none,
                    "column of the classes, as numbers or names: its name, or its number (from 0; -1: the last); empty: no labels"),
          option_of("class_names", kind::texts, option_value{std::vector<std::string>{}},
                    "names of the classes in the order of their numbers; empty: those in the label column of `path`, sorted"),
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
          ignore_label_option(),
          missing_option(),
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
  return {"csv",
          "Rows of numbers in text files; one column may be the label (numbers or names), or several the targets. Kept in memory.",
          csv_specs(), open_csv, files};
}

}  // namespace troupe
