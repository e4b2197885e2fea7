// Arrays of NumPy as data for `troupe new --data`: arrays of usual names, kinds of labels.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "apps/commands/prepare/new.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/formats/numpy_array.hpp"

namespace troupe::data_look {
namespace {

constexpr std::uint64_t most_bytes = std::uint64_t{4} << 30;
// Labels of an array of integers are classes if they are below this, and no more than
// most_named_classes.
constexpr double most_class_number = 10000;

struct array_names {
  const char *data, *labels, *test_data, *test_labels;  // "": none
};
constexpr array_names usual_arrays[] = {{"x_train", "y_train", "x_test", "y_test"},
                                        {"X_train", "y_train", "X_test", "y_test"},
                                        {"train_images", "train_labels", "test_images", "test_labels"},
                                        {"x", "y", "", ""},
                                        {"X", "y", "", ""},
                                        {"data", "labels", "", ""},
                                        {"images", "labels", "", ""},
                                        {"data", "target", "", ""},
                                        {"arr_0", "arr_1", "", ""}};

// The shape of an example, if it is not that of the array.
expected<std::optional<std::vector<std::int64_t>>> example_shape_of(const numpy_array& a) {
  const auto& e = a.header.extents;
  using some = std::optional<std::vector<std::int64_t>>;
  if (e.size() == 3 && e[1] >= 8 && e[2] >= 8) return some({1, e[1], e[2]});
  if (e.size() == 4 && e[1] > 4 && e[3] == 1) return some({1, e[1], e[2]});
  if (e.size() == 4 && e[1] > 4 && (e[3] == 3 || e[3] == 4))
    return unexpected(error(a.name + ": its examples are " + a.row_text() +
                            " with the channels last; save array.transpose(0, 3, 1, 2), channels first"));
  return some();
}

// Whether labels name classes. Integers may also be counts or prices, and floats class numbers.
bool are_classes(const numpy_array& a, bool floats) {
  const auto numbers = a.numbers(0, std::min<std::int64_t>(a.rows() * a.row_count(), static_cast<std::int64_t>(most_records)));
  std::set<double> distinct;
  for (const double v : numbers) {
    if (floats ? !(v >= 0 && v == std::floor(v)) : v >= most_class_number) return false;
    distinct.insert(v);
  }
  return distinct.size() <= (floats ? most_classes_of_numbers : most_named_classes);
}

}  // namespace

expected<looked_at> look_at_arrays(const std::string& path) {
  if (auto fine = check_numpy_place(path); !fine) return unexpected(std::move(fine).error());
  std::optional<error> half;  // of the first pair with one array that can be read
  for (const auto& n : usual_arrays) {
    const auto data = open_numpy(path, n.data, most_bytes);
    const auto labels = open_numpy(path, n.labels, most_bytes);
    if (!half && data.has_value() != labels.has_value()) half = data ? labels.error() : data.error();
    if (!data || !labels) continue;
    looked_at out{"numpy", {}, {}};
    auto& v = out.values.values;
    v["path"] = path;
    v["data"] = std::string(n.data), v["labels"] = std::string(n.labels);
    const bool tests =
        *n.test_data != '\0' && open_numpy(path, n.test_data, most_bytes) && open_numpy(path, n.test_labels, most_bytes);
    v["test_data"] = std::string(tests ? n.test_data : ""), v["test_labels"] = std::string(tests ? n.test_labels : "");
    if (!tests) v["test_fraction"] = test_share;
    auto shape = example_shape_of(*data);
    if (!shape) return unexpected(shape.error());
    if (*shape) v["shape"] = **shape;
    const bool floats = labels->header.type == npy_type::f4 || labels->header.type == npy_type::f8;
    const bool single = labels->row_count() == 1, classes = single && are_classes(*labels, floats);
    if (single && floats == classes) v["label_kind"] = std::string(classes ? "classes" : "values");
    out.seen.push_back(std::string("arrays ") + n.data + ", " + n.labels +
                       (tests ? ", " + (std::string(n.test_data) + ", " + n.test_labels) : "") + ": " +
                       counted(static_cast<std::size_t>(data->rows()), "examples of ") + data->row_text());
    out.seen.push_back(classes ? "predicts the class numbers in " + std::string(n.labels)
                               : "predicts the values in " + std::string(n.labels));
    return out;
  }
  if (half) return unexpected(*half);
  std::vector<std::string> pairs;
  for (const auto& n : usual_arrays) pairs.push_back(std::string(n.data) + " with " + n.labels);
  return unexpected(error(path + ": it has no arrays of examples and labels with a usual name (" + joined(pairs) +
                          "); save them with numpy.savez(\"data.npz\", x_train=..., y_train=...)"));
}

}  // namespace troupe::data_look
