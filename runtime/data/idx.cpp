// idx: four files in the format of MNIST (idx_file.hpp), kept in memory as bytes. value = byte *
// scale - mean, computed in double once for each of the 256 bytes and rounded once to the tensor's
// type, so that f32 and f64 runs read the same numbers up to that rounding.
#include <array>
#include <cassert>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "runtime/data/idx_file.hpp"
#include "runtime/data/source_options.hpp"
#include "runtime/data/stock.hpp"

namespace troupe {
namespace {

struct labelled {
  idx_array images;
  idx_array labels;
};

class idx_source final : public source {
 public:
  idx_source(labelled train, labelled test, shape example, std::int64_t classes, double scale, double mean)
      : parts_{std::move(train), std::move(test)}, example_(example), classes_(classes), scaling_{{scale}, {mean}} {
    for (std::size_t i = 0; i < as_double_.size(); ++i) {
      as_double_[i] = static_cast<double>(i) * scale - mean;
      as_float_[i] = static_cast<float>(as_double_[i]);
    }
  }

  shape example() const override { return example_; }
  std::int64_t classes() const override { return classes_; }
  std::int64_t size(split s) const override { return part(s).images.extents[0]; }
  std::optional<byte_scaling> bytes() const override { return scaling_; }
  void read_bytes(split s, const std::vector<std::int64_t>& indices, std::uint8_t* out) const override {
    const auto n = static_cast<std::size_t>(example_.count());
    for (auto i : indices) {
      if (i < 0)
        std::memset(out, 0, n);
      else
        std::memcpy(out, part(s).images.elements() + static_cast<std::size_t>(i) * n, n);
      out += n;
    }
  }

  void read(split s, const std::vector<std::int64_t>& indices, tensor& data, tensor& label) const override {
    assert(data.count() == static_cast<std::int64_t>(indices.size()) * example_.count());
    assert(data.type() == dtype::f32 || data.type() == dtype::f64);
    if (data.type() == dtype::f64)
      copy(s, indices, data.mutable_data<double>(), as_double_);
    else
      copy(s, indices, data.mutable_data<float>(), as_float_);
    assert(label.count() == static_cast<std::int64_t>(indices.size()));
    auto* out = label.mutable_data<std::int32_t>();
    const auto* labels = part(s).labels.elements();
    for (auto i : indices) *out++ = i < 0 ? -1 : labels[i];
  }

 private:
  const labelled& part(split s) const { return parts_[s == split::train ? 0 : 1]; }

  template <class T>
  void copy(split s, const std::vector<std::int64_t>& indices, T* out, const std::array<T, 256>& table) const {
    const auto n = static_cast<std::size_t>(example_.count());
    const auto* images = part(s).images.elements();
    for (auto i : indices) {
      assert(i < size(s));
      if (i < 0) {
        std::memset(out, 0, n * sizeof(T));
      } else {
        const auto* in = images + static_cast<std::size_t>(i) * n;
        for (std::size_t k = 0; k < n; ++k) out[k] = table[in[k]];
      }
      out += n;
    }
  }

  std::array<labelled, 2> parts_;
  shape example_;
  std::int64_t classes_;
  byte_scaling scaling_;
  std::array<double, 256> as_double_{};
  std::array<float, 256> as_float_{};
};

// One of the four files: the option that names it, its name in MNIST, and its rank.
struct file_spec {
  const char* option;
  const char* usual_name;
  int min_rank, max_rank;
};
constexpr file_spec train_images{"train_images", "train-images-idx3-ubyte", 2, 4};
constexpr file_spec train_labels{"train_labels", "train-labels-idx1-ubyte", 1, 1};
constexpr file_spec test_images{"test_images", "t10k-images-idx3-ubyte", 2, 4};
constexpr file_spec test_labels{"test_labels", "t10k-labels-idx1-ubyte", 1, 1};

struct opened {
  idx_array array;
  std::string path;
  std::string key;  // the option to report
};

source_file file_of(const options& o, const file_spec& f) {
  const auto& folder = o.text("path");
  const auto& named = o.text(f.option);
  const auto base = named.empty() ? folder + "/" + f.usual_name : named.front() == '/' ? named : folder + "/" + named;
  std::error_code unreadable;  // read_idx reports it
  return {named.empty() ? "path" : f.option, named.empty() && !std::filesystem::exists(base, unreadable) ? base + ".gz" : base};
}

opened open_file(const options& o, const file_spec& f) {
  auto file = file_of(o, f);
  opened out{{}, std::move(file.path), std::move(file.key)};
  check_path_text(out.key, o.text("path") + o.text(f.option));
  auto r = read_idx(out.path, f.min_rank, f.max_rank);
  if (!r) throw option_error(out.key, out.path + ": " + r.error().text);
  out.array = std::move(*r);
  return out;
}

struct opened_split {
  opened images, labels;
};

opened_split open_split(const options& o, const file_spec& images, const file_spec& labels) {
  opened_split out{open_file(o, images), open_file(o, labels)};
  const auto n = out.images.array.extents[0], m = out.labels.array.extents[0];
  if (n != m)
    throw option_error(out.labels.key, out.labels.path + ": " + std::to_string(m) + " labels, but " + out.images.path + " has " +
                                           std::to_string(n) + " images");
  return out;
}

// Number of classes from the training labels. They must be contiguous, so that one damaged byte
// does not give 256 classes.
std::int64_t infer_classes(const opened& labels) {
  std::array<std::int64_t, 256> first{};
  first.fill(-1);
  for (std::int64_t i = labels.array.extents[0]; i-- > 0;) first[labels.array.elements()[i]] = i;
  std::size_t low = 0, high = 255;
  while (first[low] < 0) ++low;
  while (first[high] < 0) --high;
  for (auto k = low; k < high; ++k)
    if (first[k] < 0)
      throw option_error(labels.key, labels.path + ": the label at index " + std::to_string(first[high]) + " is larger than " +
                                         std::to_string(k) + ", but no example has label " + std::to_string(k) +
                                         "; set classes if that is meant");
  return static_cast<std::int64_t>(high) + 1;
}

void check_labels(const opened& labels, std::int64_t classes) {
  for (std::int64_t i = 0; i < labels.array.extents[0]; ++i)
    if (labels.array.elements()[i] >= classes)
      throw option_error(labels.key, labels.path + ": the label at index " + std::to_string(i) +
                                         " is not below classes = " + std::to_string(classes));
}

// [n, h, w] are grey images 1 x h x w, the shape that image layers take.
shape example_shape(const idx_array& images) {
  shape s;
  if (images.extents.size() == 3) s.push_back(1);
  for (std::size_t i = 1; i < images.extents.size(); ++i) s.push_back(images.extents[i]);
  return s;
}

std::string example_text(const idx_array& images) {
  std::string s;
  for (std::size_t i = 1; i < images.extents.size(); ++i) {
    if (i > 1) s += 'x';
    s += std::to_string(images.extents[i]);
  }
  return s;
}

std::shared_ptr<const source> open_idx(const options& o, std::uint64_t) {
  auto train = open_split(o, train_images, train_labels);
  auto test = open_split(o, test_images, test_labels);
  if (auto is = example_text(test.images.array), want = example_text(train.images.array); is != want)
    throw option_error(test.images.key,
                       test.images.path + ": examples are " + is + ", but those of " + train.images.path + " are " + want);
  const auto example = example_shape(train.images.array);
  auto classes = o.integer("classes");
  if (classes == 0) classes = infer_classes(train.labels);
  check_labels(train.labels, classes);
  check_labels(test.labels, classes);
  return std::make_shared<idx_source>(labelled{std::move(train.images.array), std::move(train.labels.array)},
                                      labelled{std::move(test.images.array), std::move(test.labels.array)}, example, classes,
                                      o.real("scale"), o.real("mean"));
}

option_spec text_option(std::string name, std::optional<option_value> fallback, std::string doc) {
  option_spec s;
  s.name = std::move(name);
  s.kind = option_kind::text;
  s.fallback = std::move(fallback);
  s.doc = std::move(doc);
  return s;
}

option_spec real_option(std::string name, double fallback, std::string doc) {
  option_spec s;
  s.name = std::move(name);
  s.kind = option_kind::real;
  s.fallback = fallback;
  s.doc = std::move(doc);
  return s;
}

option_specs idx_specs() {
  const option_value none{std::string{}};
  option_spec classes;
  classes.name = "classes";
  classes.kind = option_kind::integer;
  classes.fallback = std::int64_t{0};
  classes.doc = "number of classes; 0: the largest training label + 1";
  classes.min = 0;
  classes.max = 256;
  return {text_option("path", std::nullopt, "folder of the four files"),
          text_option("train_images", none, "file, in path unless absolute; empty: train-images-idx3-ubyte or .gz"),
          text_option("train_labels", none, "likewise; empty: train-labels-idx1-ubyte or .gz"),
          text_option("test_images", none, "likewise; empty: t10k-images-idx3-ubyte or .gz"),
          text_option("test_labels", none, "likewise; empty: t10k-labels-idx1-ubyte or .gz"),
          classes,
          real_option("scale", 1.0 / 255.0, "value = byte * scale - mean"),
          real_option("mean", 0.0, "subtracted after scaling")};
}

}  // namespace

source_type idx_source_type() {
  return {"idx", "Images and labels in the format of MNIST (IDX, unsigned bytes), plain or gzip. Kept in memory as bytes.",
          idx_specs(), open_idx, [](const options& o) {
            return std::vector<source_file>{file_of(o, train_images), file_of(o, train_labels), file_of(o, test_images),
                                            file_of(o, test_labels)};
          }};
}

}  // namespace troupe
