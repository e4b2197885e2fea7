#include "runtime/data/inputs.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "runtime/base/wording.hpp"
#include "runtime/data/csv_rows.hpp"
#include "runtime/data/file_bytes.hpp"
#include "runtime/data/idx_file.hpp"
#include "runtime/data/npy_file.hpp"
#include "runtime/data/stock.hpp"

namespace troupe {
namespace {

// Base of the inputs: numbers to values.
class number_input : public source {
 public:
  number_input(std::string path, const input_format& f, bool scaled) : path_(std::move(path)), format_(f) {
    if (!scaled || f.ids) format_.scale.clear();
  }
  shape example() const override { return format_.example; }
  std::int64_t classes() const override { return 0; }
  bool ids() const override { return format_.ids; }
  std::int64_t size(split s) const override { return s == split::test ? count_ : 0; }

  void read(split, const std::vector<std::int64_t>& indices, tensor& data, tensor& label) const override {
    assert(data.count() == static_cast<std::int64_t>(indices.size()) * format_.example.count());
    switch (data.type()) {
      case dtype::i32: fill(indices, data.mutable_data<std::int32_t>()); break;
      case dtype::f64: fill(indices, data.mutable_data<double>()); break;
      default: fill(indices, data.mutable_data<float>());
    }
    std::fill_n(label.mutable_data<std::int32_t>(), label.count(), -1);
  }

 protected:
  // Writes the numbers of example i.
  virtual void numbers(std::int64_t i, double* out) const = 0;
  std::string path_;
  std::int64_t count_ = 0;

 private:
  template <class T>
  void fill(const std::vector<std::int64_t>& indices, T* out) const {
    const auto n = static_cast<std::size_t>(format_.example.count());
    std::vector<double> row(n);
    for (auto i : indices) {
      if (i < 0) {
        std::fill_n(out, n, T{0});
      } else {
        numbers(i, row.data());
        scale(row);
        for (std::size_t k = 0; k < n; ++k) out[k] = converted<T>(row[k], i);
      }
      out += n;
    }
  }

  void scale(std::vector<double>& row) const {
    const auto run = format_.scale.empty() ? row.size() : row.size() / format_.scale.size();
    for (std::size_t c = 0; c < format_.scale.size(); ++c)
      for (std::size_t k = c * run; k < (c + 1) * run; ++k) row[k] = row[k] * format_.scale[c] - format_.mean[c];
  }

  template <class T>
  T converted(double v, std::int64_t i) const {
    if constexpr (std::is_same_v<T, std::int32_t>)
      if (!(v >= 0 && v < 2147483648.0 && v == std::floor(v)))
        throw std::runtime_error(path_ + ": example " + std::to_string(i) + " has a number that is no id (0, 1, 2, ...)");
    return static_cast<T>(v);
  }

  input_format format_;
};

class npy_input final : public number_input {
 public:
  npy_input(std::string path, const input_format& f, npy_header h, std::shared_ptr<const random_bytes> file)
      : number_input(std::move(path), f, f.scales_floats || (h.type != npy_type::f4 && h.type != npy_type::f8)),
        header_(std::move(h)),
        file_(std::move(file)) {
    count_ = header_.extents[0];
  }

 private:
  void numbers(std::int64_t i, double* out) const override {
    const auto n = static_cast<std::size_t>(example().count()), length = n * npy_bytes(header_.type);
    std::vector<std::uint8_t> raw(length);
    if (const auto fine = file_->read(header_.offset + static_cast<std::uint64_t>(i) * length, raw.data(), length); !fine)
      throw std::runtime_error(fine.error().in(path_).text);
    npy_numbers(header_.type, raw.data(), n, out);
  }
  npy_header header_;
  std::shared_ptr<const random_bytes> file_;
};

class csv_rows_input final : public number_input {
 public:
  // `order`: for each value of an example its place in a row.
  csv_rows_input(std::string path, const input_format& f, std::shared_ptr<csv_rows> rows, std::vector<std::size_t> order,
                 std::vector<double> fill)
      : number_input(std::move(path), f, true), rows_(std::move(rows)), order_(std::move(order)), fill_(std::move(fill)) {
    count_ = rows_->size();
  }

 private:
  void numbers(std::int64_t i, double* out) const override {
    const auto* row = rows_->row(i);
    for (std::size_t k = 0; k < order_.size(); ++k) {
      out[k] = row[order_[k]];
      if (std::isnan(out[k]) && !fill_.empty()) out[k] = fill_[k];
    }
  }
  std::shared_ptr<csv_rows> rows_;
  std::vector<std::size_t> order_;
  std::vector<double> fill_;
};

class idx_input final : public number_input {
 public:
  idx_input(std::string path, const input_format& f, idx_array a) : number_input(std::move(path), f, true), array_(std::move(a)) {
    count_ = array_.extents[0];
  }

 private:
  void numbers(std::int64_t i, double* out) const override {
    const auto n = example().count();
    for (std::int64_t k = 0; k < n; ++k) out[k] = array_.elements()[i * n + k];
  }
  idx_array array_;
};

std::string shape_text(const std::vector<std::int64_t>& extents, std::size_t from, const char* between = "x") {
  std::string s;
  for (std::size_t k = from; k < extents.size(); ++k) s += (k > from ? between : "") + std::to_string(extents[k]);
  return s.empty() ? "scalar" : s;
}

std::vector<std::int64_t> without_ones(const std::vector<std::int64_t>& extents, std::size_t from) {
  std::vector<std::int64_t> out;
  for (std::size_t k = from; k < extents.size(); ++k)
    if (extents[k] != 1) out.push_back(extents[k]);
  return out;
}

// An error if an array of these extents does not hold examples of that shape.
expected<void> check_examples(const std::vector<std::int64_t>& extents, const shape& example) {
  std::vector<std::int64_t> want;
  for (int k = 0; k < example.rank(); ++k) want.push_back(example[k]);
  if (extents.empty()) return unexpected(error("it is a single number, not an array of examples"));
  if (without_ones(extents, 1) != without_ones(want, 0)) {
    auto text = "an example has shape " + shape_text(extents, 1) + ", but the net takes " + shape_text(want, 0);
    if (without_ones(extents, 0) == without_ones(want, 0)) text += " (a single example? The first dimension counts examples)";
    std::int64_t numbers = 1;
    for (std::size_t k = 1; k < extents.size(); ++k) numbers *= extents[k];
    if (want.size() == 3 && extents.size() == 4 && extents[1] == want[1] && extents[2] == want[2] && extents[3] == want[0])
      text += " (channels first: save array.transpose(0, 3, 1, 2))";
    else if (extents.size() == 2 && numbers == example.count())
      text += " (save array.reshape(-1, " + shape_text(want, 0, ", ") + "))";
    return unexpected(error(text));
  }
  if (!(extents[0] == 0)) return {};
  return unexpected(error("it has no examples"));
}

// Skips the columns of a list of names or numbers. A missing one is an error if `needed`.
expected<void> skip_columns(const std::vector<std::string>& words, const std::vector<std::string>& names, bool needed,
                            std::vector<bool>& skip) {
  for (const auto& word : words) {
    const auto at = csv_column(word, names);
    if (at)
      skip[*at] = true;
    else if (needed)
      return unexpected(at.error());
  }
  return {};
}

// Skips the columns of label or targets of training files: by name, or by number if the file has
// them.
void skip_labels(const std::vector<std::string>& labels, const std::vector<std::string>& names, std::size_t wanted,
                 std::vector<bool>& skip) {
  std::vector<std::size_t> left;  // numbers count the columns that are read, as in training
  for (std::size_t k = 0; k < names.size(); ++k)
    if (!skip[k]) left.push_back(k);
  for (const auto& label : labels) {
    if (const auto at = std::find(names.begin(), names.end(), label); at != names.end()) {
      skip[static_cast<std::size_t>(at - names.begin())] = true;
      continue;
    }
    std::ptrdiff_t number = 0;
    const auto [end, bad] = std::from_chars(label.data(), label.data() + label.size(), number);
    if (bad != std::errc{} || end != label.data() + label.size() || left.size() != wanted + labels.size()) continue;
    if (number < 0) number += static_cast<std::ptrdiff_t>(left.size());
    if (number >= 0 && number < static_cast<std::ptrdiff_t>(left.size())) skip[left[static_cast<std::size_t>(number)]] = true;
  }
}

std::string_view text_of(const std::vector<std::uint8_t>& content) {
  return {reinterpret_cast<const char*>(content.data()), content.size()};
}

// The first bytes of a file, at most `most`.
expected<std::vector<std::uint8_t>> beginning_of(const random_bytes& file, std::size_t most) {
  std::vector<std::uint8_t> out(static_cast<std::size_t>(std::min<std::uint64_t>(most, file.size())));
  if (const auto fine = file.read(0, out.data(), out.size()); !fine) return unexpected(fine.error());
  return out;
}

// At least the first record that is not empty, if it has at most 64 MiB, and its separator.
expected<std::vector<std::uint8_t>> first_record_of(const random_bytes& file, std::optional<char>& separator) {
  constexpr std::size_t usual = std::size_t{1} << 16, most = std::size_t{64} << 20;
  auto r = beginning_of(file, usual);
  if (!r) return r;
  if (!separator) separator = likely_csv_separator(text_of(*r));
  return complete_csv_records(*r, *separator) > 0 ? r : beginning_of(file, most);
}

// Whether a first line is a header with the names that the net knows. A number may be a value.
bool has_input_names(const std::vector<std::string>& names, const csv_input& c) {
  const std::unordered_set<std::string_view> there(names.begin(), names.end());
  std::size_t found = 0, words = 0;
  for (const auto& n : c.inputs) {
    const bool here = there.contains(n);
    found += here ? 1 : 0;
    words += here && !is_csv_number(n) ? 1 : 0;
  }
  return words > 0 || (found > 0 && found == c.inputs.size());
}

// The columns of the net's inputs, by name. Columns of the same name keep their order, if the file
// has as many of them as the net takes.
expected<std::vector<std::size_t>> named_columns(const std::vector<std::string>& names, const std::vector<bool>& skip,
                                                 const csv_input& c) {
  std::unordered_map<std::string_view, std::vector<std::size_t>> places;
  std::unordered_map<std::string_view, std::size_t> wanted, taken;
  for (std::size_t k = 0; k < names.size(); ++k) places[names[k]].push_back(k);
  for (const auto& n : c.inputs) ++wanted[n];
  std::vector<std::size_t> columns;
  for (const auto& n : c.inputs) {
    auto& of = places[n];
    if (of.size() > wanted[n]) std::erase_if(of, [&](std::size_t k) { return skip[k]; });
    if (of.size() < wanted[n])
      return unexpected(error("the net takes column " + in_quotes(n) + ", which is not there" +
                              (of.empty() ? "" : " " + std::to_string(wanted[n]) + " times") +
                              " (columns: " + csv_column_list(names) + ")"));
    if (of.size() > wanted[n])
      return unexpected(error(std::to_string(of.size()) + " columns have the name " + in_quotes(n) + ", but the net takes " +
                              std::to_string(wanted[n]) + " of them; --ignore NUMBER skips a column (from 0)"));
    columns.push_back(of[taken[n]++]);
  }
  return columns;
}

// The columns of a file that are an example, in its order.
expected<std::vector<std::size_t>> example_columns(const std::vector<std::string>& names, const input_format& f,
                                                   const csv_input& c) {
  std::vector<bool> skip(names.size());
  if (const auto found = skip_columns(c.ignore, names, true, skip); !found) return unexpected(found.error());
  std::vector<std::size_t> columns;
  if (has_input_names(names, c)) return named_columns(names, skip, c);
  (void)skip_columns(c.absent, names, false, skip);
  const auto wanted = static_cast<std::size_t>(f.example.count());
  skip_labels(c.labels, names, wanted, skip);
  for (std::size_t k = 0; k < names.size(); ++k)
    if (!skip[k]) columns.push_back(k);
  if (columns.size() == wanted) return columns;
  return unexpected(error("a line has " + std::to_string(columns.size()) + " numbers, but the net takes " + f.example.to_string() +
                          " (" + std::to_string(wanted) + " numbers); --ignore COLUMN skips columns"));
}

}  // namespace

input_format input_format_of(const source& s, const std::string& source_name, const options& values) {
  input_format f{s.example(), s.ids(), {}, {}, false, s.picture_order()};
  if (const auto b = s.bytes()) {
    f.scale = b->scale;
    f.mean = b->mean;
  } else if (source_name == "csv") {
    f.scale = values.get<std::vector<double>>("scale");
    f.mean = values.get<std::vector<double>>("mean");
    const auto n = std::max(f.scale.size(), f.mean.size());
    const auto fill = [n](std::vector<double>& list, double otherwise) {
      if (list.size() < n) list.assign(n, list.empty() ? otherwise : list[0]);
    };
    fill(f.scale, 1.0);
    fill(f.mean, 0.0);
  } else if (source_name == "numpy" || source_name == "hdf5" ||
             source_name == "arrays") {  // floats, too, are numbers as in the job's arrays
    f.scale = {values.real("scale")};
    f.mean = {values.real("mean")};
    f.scales_floats = true;
  }
  return f;
}

csv_input csv_input_of(const source& s) {
  const auto t = s.table();
  if (!t) return {};
  csv_input c;
  c.separator = t->separator;
  c.header = t->header;
  c.labels = t->labels;
  c.absent = t->ignored;
  if (t->header) c.inputs = t->inputs;
  c.fill = t->fill;
  return c;
}

input_result open_npy_input(const std::string& path, const input_format& f) {
  auto file = open_bytes(path);
  if (!file) return unexpected(file.error().in(path));
  return npy_input_of(path, *std::move(file), f);
}

input_result npy_input_of(const std::string& name, std::shared_ptr<const random_bytes> bytes, const input_format& f) {
  const auto beginning = beginning_of(*bytes, npy_most_header);
  if (!beginning) return unexpected(beginning.error().in(name));
  auto h = parse_npy(*beginning, bytes->size());
  if (!h) return unexpected(h.error().in(name));
  if (const auto fine = check_examples(h->extents, f.example); !fine) return unexpected(fine.error().in(name));
  return std::make_shared<npy_input>(name, f, *std::move(h), std::move(bytes));
}

input_result open_csv_input(const std::string& path, const input_format& f, const csv_input& c) {
  auto file = open_bytes(path);
  if (!file) return unexpected(file.error().in(path));
  auto separator = c.separator;
  auto beginning = first_record_of(**file, separator);
  if (!beginning) return unexpected(beginning.error().in(path));
  auto first = parse_csv_first_line(*beginning, *separator);
  if (!first) {
    const auto& e = first.error();
    return unexpected(error(path + ":" + (e.line > 0 ? std::to_string(e.line) + ":" : "") + " " + e.text));
  }
  const auto& names = first->fields;
  const auto chosen = example_columns(names, f, c);
  if (!chosen) return unexpected(chosen.error().in(path));
  csv_columns columns{*separator, has_input_names(names, c), *chosen, names.size(), !c.fill.empty()};
  std::sort(columns.keep.begin(), columns.keep.end());
  for (const auto k : columns.keep)
    columns.header = columns.header || (c.header && !is_csv_number(names[k]) && !is_missing_csv_field(names[k]));
  std::vector<std::size_t> order;
  for (const auto k : *chosen)
    order.push_back(static_cast<std::size_t>(std::lower_bound(columns.keep.begin(), columns.keep.end(), k) - columns.keep.begin()));
  auto rows = csv_rows::open(path, std::move(columns));
  if (!rows) return unexpected(std::move(rows).error());
  return std::make_shared<csv_rows_input>(path, f, *std::move(rows), std::move(order), c.fill);
}

input_result open_idx_input(const std::string& path, const input_format& f) {
  auto r = read_idx(path, 1, 4);
  if (!r) return unexpected(r.error().in(path));
  auto& a = *r;
  if (const auto fine = check_examples(a.extents, f.example); !fine) return unexpected(fine.error().in(path));
  return std::make_shared<idx_input>(path, f, std::move(a));
}

expected<input_kind> input_kind_of(const std::string& path) {
  const auto file = open_bytes(path);
  if (!file) return unexpected(file.error().in(path));
  const auto beginning = beginning_of(**file, 8);
  if (!beginning) return unexpected(beginning.error().in(path));
  const auto text = text_of(*beginning);
  const auto begins = [&](std::string_view magic) { return text.starts_with(magic); };
  if (begins("\x89PNG") || begins("\xff\xd8")) return input_kind::image;
  if (begins("\x93NUMPY")) return input_kind::npy;
  if (begins(std::string_view("\0\0\x08", 3)) || begins("\x1f\x8b")) return input_kind::idx;
  auto name = path;
  for (auto& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  const auto ends = [&](std::string_view e) { return name.ends_with(e); };
  if (ends(".csv") || ends(".tsv") || ends(".txt")) return input_kind::csv;
  if (ends(".png") || ends(".jpg") || ends(".jpeg")) return input_kind::image;
  if (ends(".npy")) return input_kind::npy;
  return input_kind::unknown;
}

}  // namespace troupe
