// numpy: arrays of examples and of class numbers or targets (numpy_array.hpp). value = number *
// scale - mean, in double, rounded once to the tensor's type. Unsigned bytes stay bytes. Arrays in
// a folder are read when they are used, those of an .npz file are kept in memory; labels always
// are.
#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <stdexcept>
#include <utility>

#include "ops/option_specs.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/data/label_rule.hpp"
#include "runtime/data/source_options.hpp"
#include "runtime/data/test_split.hpp"
#include "runtime/memory/process_memory.hpp"
#include "runtime/node/formats/formats.hpp"
#include "runtime/node/formats/numpy_array.hpp"

namespace troupe {
namespace {

// The examples of a split.
struct numpy_part {
  numpy_array data;
  std::vector<std::int32_t> labels;  // empty: none
  std::vector<double> targets;       // the same, if they are values
  std::vector<std::int64_t> rows;    // of `data`, in the order of the examples
};

struct numpy_layout {
  shape example, label;
  bool ignores_labels = false;
  std::int64_t classes = 0, vocabulary = 0;
  double scale = 1, mean = 0;
  bool ids = false, targets = false;
  channel_order order = channel_order::rgb;
};

class numpy_source final : public source {
 public:
  numpy_source(std::array<numpy_part, 2> parts, numpy_layout layout) : parts_(std::move(parts)), layout_(layout) {
    for (std::size_t i = 0; i < as_double_.size(); ++i) as_double_[i] = value(static_cast<double>(i));
    for (std::size_t i = 0; i < as_float_.size(); ++i) as_float_[i] = static_cast<float>(as_double_[i]);
  }

  shape example() const override { return layout_.example; }
  shape label() const override { return layout_.label; }
  std::int64_t classes() const override { return layout_.classes; }
  bool targets() const override { return layout_.targets; }
  bool ids() const override { return layout_.ids; }
  bool ignores_labels() const override { return layout_.ignores_labels; }
  std::int64_t vocabulary() const override { return layout_.vocabulary; }
  channel_order picture_order() const override { return layout_.order; }
  std::int64_t size(split s) const override { return static_cast<std::int64_t>(part(s).rows.size()); }
  std::optional<byte_scaling> bytes() const override {
    if (layout_.ids || parts_[0].data.header.type != npy_type::u1) return std::nullopt;
    return byte_scaling{{layout_.scale}, {layout_.mean}};
  }
  void read_bytes(split s, const std::vector<std::int64_t>& indices, std::uint8_t* out) const override {
    const auto n = static_cast<std::size_t>(layout_.example.count());
    for (auto i : indices) {
      if (i < 0)
        std::memset(out, 0, n);
      else
        part(s).data.read_row(row(s, i), out);
      out += n;
    }
  }

  void read(split s, const std::vector<std::int64_t>& indices, tensor& data, tensor& label) const override {
    assert(data.count() == static_cast<std::int64_t>(indices.size()) * layout_.example.count());
    switch (data.type()) {
      case dtype::i32: read_ids(s, indices, data.mutable_data<std::int32_t>()); break;
      case dtype::f64: read_values(s, indices, data.mutable_data<double>(), as_double_); break;
      default: read_values(s, indices, data.mutable_data<float>(), as_float_);
    }
    switch (label.type()) {
      case dtype::i32: read_labels(s, indices, part(s).labels, -1, label.mutable_data<std::int32_t>()); break;
      case dtype::f64: read_labels(s, indices, part(s).targets, 0, label.mutable_data<double>()); break;
      default: read_labels(s, indices, part(s).targets, 0, label.mutable_data<float>());
    }
  }

 private:
  const numpy_part& part(split s) const { return parts_[s == split::train ? 0 : 1]; }
  std::int64_t row(split s, std::int64_t i) const { return part(s).rows[static_cast<std::size_t>(i)]; }
  double value(double number) const { return number * layout_.scale - layout_.mean; }

  template <class T, class From>
  void read_labels(split s, const std::vector<std::int64_t>& indices, const std::vector<From>& labels, int padding, T* out) const {
    const auto n = static_cast<std::size_t>(layout_.label.count());
    for (auto i : indices) {
      const auto* from = labels.empty() || i < 0 ? nullptr : labels.data() + static_cast<std::size_t>(row(s, i)) * n;
      for (std::size_t k = 0; k < n; ++k) *out++ = static_cast<T>(i < 0 ? padding : from ? from[k] : 0);
    }
  }

  template <class T>
  void read_values(split s, const std::vector<std::int64_t>& indices, T* out, const std::array<T, 256>& of_byte) const {
    const auto& from = part(s).data;
    const auto type = from.header.type;
    const auto n = static_cast<std::size_t>(layout_.example.count());
    const bool as_they_are =
        layout_.scale == 1 && layout_.mean == 0 && type == (std::is_same_v<T, float> ? npy_type::f4 : npy_type::f8);
    std::vector<std::uint8_t> raw(n * npy_bytes(type));
    std::vector<double> numbers(as_they_are || type == npy_type::u1 ? 0 : n);
    for (auto i : indices) {
      if (i < 0) {
        std::fill_n(out, n, T{0});
      } else if (as_they_are) {
        from.read_row(row(s, i), reinterpret_cast<std::uint8_t*>(out));
      } else {
        from.read_row(row(s, i), raw.data());
        if (type == npy_type::u1) {
          for (std::size_t k = 0; k < n; ++k) out[k] = of_byte[raw[k]];
        } else {
          npy_numbers(type, raw.data(), n, numbers.data());
          for (std::size_t k = 0; k < n; ++k) out[k] = static_cast<T>(value(numbers[k]));
        }
      }
      out += n;
    }
  }

  void read_ids(split s, const std::vector<std::int64_t>& indices, std::int32_t* out) const {
    const auto& from = part(s).data;
    const auto n = static_cast<std::size_t>(layout_.example.count());
    for (auto i : indices) {
      const auto numbers = i < 0 ? std::vector<double>(n) : from.numbers(row(s, i) * from.row_count(), from.row_count());
      for (const double v : numbers) {
        if (!(v >= 0 && v <= std::numeric_limits<std::int32_t>::max()))
          throw std::runtime_error(from.name + ": row " + std::to_string(row(s, i)) + " has a number that is no id (0, 1, 2, ...)");
        *out++ = static_cast<std::int32_t>(v);
      }
    }
  }

  std::array<numpy_part, 2> parts_;
  numpy_layout layout_;
  std::array<double, 256> as_double_{};
  std::array<float, 256> as_float_{};
};

numpy_array open_array(const options& o, const char* key, std::uint64_t most) {
  const auto &path = o.text("path"), &name = o.text(key);
  check_path_text("path", path);
  if (name.find('\0') != std::string::npos || name.find('/') != std::string::npos)
    throw option_error(key, std::string("option '") + key + "' is the name of an array, without a folder, not " + in_quotes(name));
  auto a = open_numpy(path, name, most);
  if (!a) throw option_error(key, a.error().text);
  return *std::move(a);
}

bool of_integers(const numpy_array& a) { return a.header.type != npy_type::f4 && a.header.type != npy_type::f8; }

// Calls `take` with the numbers of an array, in order, and their index.
template <class F>
void for_numbers(const numpy_array& a, F&& take) {
  constexpr std::int64_t step = 1 << 16;
  const auto count = a.rows() * a.row_count();
  std::size_t index = 0;
  for (std::int64_t at = 0; at < count; at += step)
    for (const double v : a.numbers(at, std::min(step, count - at))) take(v, index++);
}

// The memory that a source may still allocate.
class memory_budget {
 public:
  explicit memory_budget(const options& o) {
    const auto at = o.values.find("memory_mib");
    if (at != o.values.end()) left_ = static_cast<std::uint64_t>(o.integer("memory_mib")) << 20;
    left_ = std::min(left_, memory_left() / 2);
  }
  std::uint64_t left() const { return left_; }
  // For `count` numbers of `each` bytes, made from `a`; count <= 2^60.
  void take(std::int64_t count, std::uint64_t each, const numpy_array& a, const char* key) {
    const auto bytes = static_cast<std::uint64_t>(count) * each;
    if (bytes > left_)
      throw option_error(key, a.name + ": " + std::to_string(count) + " numbers need " + std::to_string(bytes >> 20) +
                                  " MiB of memory, and memory_mib leaves " + std::to_string(left_ >> 20) + " MiB");
    left_ -= bytes;
  }

 private:
  std::uint64_t left_ = std::numeric_limits<std::uint64_t>::max();
};

void check_label_rows(const numpy_array& a, const numpy_array& data, const char* key) {
  if (a.rows() == data.rows()) return;
  throw option_error(key, a.name + ": " + std::to_string(a.rows()) + " labels, but " + data.name + " has " +
                              std::to_string(data.rows()) + " examples");
}

// The class numbers of an array of labels (-1: does not count), and in `most` the largest.
std::vector<std::int32_t> labels_of(const numpy_array& a, const char* key, label_rule& rule, std::int32_t& most) {
  std::vector<std::int32_t> labels;
  labels.reserve(static_cast<std::size_t>(a.rows() * a.row_count()));
  for_numbers(a, [&](double v, std::size_t index) {
    const auto label = rule.of(v);
    if (!label)
      throw option_error(key, a.name + ": the label at index " + std::to_string(index) +
                                  " is not a class number (0, 1, 2, ...); the array is of " + npy_name(a.header.type) +
                                  ", label_kind = \"values\" takes its numbers as targets");
    labels.push_back(*label);
    most = std::max(most, labels.back());
  });
  return labels;
}

std::vector<double> targets_of(const numpy_array& a, const char* key) {
  std::vector<double> targets;
  targets.reserve(static_cast<std::size_t>(a.rows() * a.row_count()));
  for_numbers(a, [&](double v, std::size_t index) {
    if (!std::isfinite(v)) throw option_error(key, a.name + ": the target at index " + std::to_string(index) + " is not finite");
    targets.push_back(v);
  });
  return targets;
}

// The number of ids below which all ids of the array are.
std::int64_t ids_in(const numpy_array& a) {
  double most = -1;
  for_numbers(a, [&](double v, std::size_t) { most = std::max(most, v); });
  return static_cast<std::int64_t>(std::clamp(most, -1.0, static_cast<double>(std::numeric_limits<std::int32_t>::max()))) + 1;
}

shape shape_of_row(const numpy_array& a, const char* key) {
  const auto& e = a.header.extents;
  if (e.size() > shape::max_rank)
    throw option_error(key,
                       a.name + ": it has " + std::to_string(e.size()) + " dimensions: at most " + std::to_string(shape::max_rank));
  shape s;
  for (std::size_t k = 1; k < e.size(); ++k) s.push_back(e[k]);
  return s;
}

shape example_of(const options& o, const numpy_array& data) {
  if (const auto given = given_shape(o, data.row_count(), data.name + ": a row of " + data.row_text() + " does not")) return *given;
  auto s = shape_of_row(data, "data");
  if (s.rank() == 0) s.push_back(1);
  return s;
}

struct numpy_keys {
  const char *data, *labels;
};
constexpr numpy_keys train_keys{"data", "labels"}, test_keys{"test_data", "test_labels"};

numpy_part open_part(const options& o, const array_opener& open, const numpy_keys& keys, numpy_layout& layout, label_rule& rule,
                     std::int32_t& most, memory_budget& budget) {
  numpy_part p{open(o, keys.data, budget.left()), {}, {}, {}};
  budget.take(static_cast<std::int64_t>(p.data.memory), 1, p.data, keys.data);
  budget.take(p.data.rows(), sizeof p.rows[0], p.data, keys.data);
  if (layout.ids && !of_integers(p.data))
    throw option_error("ids", p.data.name + ": ids are integers, not floats (" + npy_name(p.data.header.type) +
                                  "): save array.astype(numpy.int32)");
  if (!o.text("labels").empty()) {
    const auto labels = open(o, keys.labels, budget.left());
    check_label_rows(labels, p.data, keys.labels);
    if (&keys == &train_keys)
      layout.targets = o.text("label_kind") == "values" || (o.text("label_kind") == "auto" && !of_integers(labels));
    auto each = shape_of_row(labels, keys.labels);
    budget.take(labels.rows() * labels.row_count(), layout.targets ? sizeof p.targets[0] : sizeof p.labels[0], labels, keys.labels);
    if (layout.targets) {
      p.targets = targets_of(labels, keys.labels);
      if (each.rank() == 0) each.push_back(1);
    } else {
      p.labels = labels_of(labels, keys.labels, rule, most);
    }
    if (&keys != &train_keys && each.to_string() != layout.label.to_string())
      throw option_error(keys.labels, labels.name + ": a label is " + labels.row_text() + ", but that of a training example " +
                                          layout.label.to_string());
    layout.label = each;
  }
  for (std::int64_t r = 0; r < p.data.rows(); ++r) p.rows.push_back(r);
  return p;
}

void check_test_rows(const numpy_array& test, const numpy_array& train) {
  if (test.row_text() == train.row_text() && test.header.type == train.header.type) return;
  throw option_error(
      "test_data",
      test.name + ": its rows (" + test.row_text() + " of " + npy_name(test.header.type) +
          ") or the type of its numbers differ from those of " + train.name + " (" + train.row_text() + " of " +
          npy_name(train.header.type) + ")" +
          (test.row_text() == train.row_text() ? ": save array.astype(numpy." + npy_name(train.header.type) + ")" : std::string()));
}

}  // namespace

std::shared_ptr<const source> open_arrays(const options& o, const array_opener& open) {
  numpy_layout layout;
  layout.ids = o.flag("ids");
  layout.scale = o.real("scale"), layout.mean = o.real("mean");
  layout.order = channel_order_of(o);
  std::array<std::int32_t, 2> most{-1, -1};
  std::array<numpy_part, 2> parts;
  memory_budget budget(o);
  label_rule rule(o, static_cast<std::int64_t>(most_classes));
  parts[0] = open_part(o, open, train_keys, layout, rule, most[0], budget);
  layout.ignores_labels = rule.has_ignored();
  layout.example = example_of(o, parts[0].data);
  if (const auto fraction = o.real("test_fraction"); fraction > 0) {
    const auto tested = chosen_for_test(parts[0].rows.size(), fraction);
    auto all = std::exchange(parts[0].rows, {});
    parts[1].data = parts[0].data;
    parts[1].labels = parts[0].labels;
    parts[1].targets = parts[0].targets;
    for (const auto r : all) parts[tested[static_cast<std::size_t>(r)] ? 1 : 0].rows.push_back(r);
  } else if (!o.text("test_data").empty()) {
    parts[1] = open_part(o, open, test_keys, layout, rule, most[1], budget);
    check_test_rows(parts[1].data, parts[0].data);
  }
  if (layout.ids) layout.vocabulary = o.integer("vocabulary");
  if (layout.ids && layout.vocabulary == 0)
    for (const auto& p : parts)
      if (!p.rows.empty()) layout.vocabulary = std::max(layout.vocabulary, ids_in(p.data));
  if (!o.text("labels").empty() && !layout.targets) {
    if (o.integer("classes") == 0) rule.check_zero("labels", parts[0].data.name);
    layout.classes = o.integer("classes") > 0 ? o.integer("classes") : most[0] + 1;
    for (const std::size_t k : {0, 1})
      if (most[k] >= layout.classes)
        throw option_error(
            k == 0 ? "labels" : "test_labels",
            "the largest label is " + std::to_string(most[k]) + ", which is not below classes = " + std::to_string(layout.classes));
  }
  return std::make_shared<numpy_source>(std::move(parts), layout);
}

option_specs array_options() {
  using kind = option_kind;
  return {
      option_of("data", kind::text, std::string("x_train"), "array of the training examples, [n, example...]"),
      option_of("labels", kind::text, std::string("y_train"),
                "array of their class numbers, [n] or [n, positions], or of target values, [n, ...]; empty: no labels"),
      option_of("test_data", kind::text, std::string("x_test"), "array of the test examples; empty: none"),
      option_of("test_labels", kind::text, std::string("y_test"), "array of their class numbers or target values"),
      choice_option("label_kind", {"auto", "classes", "values"},
                    "classes: labels are class numbers; values: they are targets (regression), [n] as [n, 1]; auto: floats are "
                    "values, integers classes"),
      real_option("test_fraction", 0.0, "instead of the test arrays: this fraction of the examples is the test split", 0.0, 0.9),
      bounded(option_of("shape", kind::integers, option_value{std::vector<std::int64_t>{}},
                        "shape of an example, outermost first; empty: as in the array"),
              1),
      bounded(option_of("classes", kind::integer, std::int64_t{0}, "number of classes; 0: the largest training label + 1"), 0,
              most_classes),
      ignore_label_option(),
      real_option("scale", 1.0, "value = number * scale - mean"),
      real_option("mean", 0.0, "subtracted after scaling"),
      channel_order_option(channel_order::rgb, "order of the planes of colour pictures [3, height, width] in the arrays"),
      flag_option("ids", false, "the numbers are ids of words or characters, for an embedding"),
      bounded(option_of("vocabulary", kind::integer, std::int64_t{0},
                        "number of ids, which an embedding must have rows for; 0: the largest id of the data + 1"),
              0, 1e9)};
}

namespace {

option_specs numpy_specs() {
  using kind = option_kind;
  auto specs = array_options();
  specs.insert(specs.begin(), option_of("path", kind::text, std::nullopt, "folder of .npy files, or an .npz file"));
  specs.push_back(bounded(option_of("memory_mib", kind::integer, std::int64_t{4096},
                                    "maximum memory for the arrays of an .npz file, the labels and the list of examples"),
                          1, 1e6));
  return specs;
}

}  // namespace

source_type numpy_source_type() {
  const auto files = [](const options& o) {
    std::error_code ec;
    const auto& path = o.text("path");
    return std::vector<source_file>{{"path", path, std::filesystem::is_directory(path, ec)}};
  };
  return {"numpy", "Arrays of NumPy: a folder of .npy files, or an .npz file.", numpy_specs(),
          [](const options& o, std::uint64_t) { return open_arrays(o, open_array); }, files};
}

source_type array_source_type(std::string name, std::string doc, option_specs more, array_opener open) {
  auto specs = array_options();
  specs.insert(specs.end(), more.begin(), more.end());
  return {std::move(name), std::move(doc), std::move(specs),
          [open = std::move(open)](const options& o, std::uint64_t) { return open_arrays(o, open); },
          [](const options&) { return std::vector<source_file>{}; }};
}

}  // namespace troupe
