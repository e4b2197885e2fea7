// idx: four files in the format of MNIST (idx_file.hpp), kept in memory as bytes. value = byte *
// scale - mean, computed in double once for each of the 256 bytes and rounded once to the tensor's
// type, so that f32 and f64 runs read the same numbers up to that rounding.
#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "runtime/data/idx_file.hpp"
#include "runtime/data/label_rule.hpp"
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
  idx_source(labelled train, labelled test, shape example, std::int64_t classes, label_rule rule, double scale, double mean,
             channel_order order)
      : parts_{std::move(train), std::move(test)},
        rule_(rule),
        example_(example),
        classes_(classes),
        scaling_{{scale}, {mean}},
        order_(order) {
    for (std::size_t i = 0; i < as_double_.size(); ++i) {
      as_double_[i] = static_cast<double>(i) * scale - mean;
      as_float_[i] = static_cast<float>(as_double_[i]);
    }
    const auto* labels = parts_[0].labels.elements();
    ignores_ = std::any_of(labels, labels + size(split::train), [&](std::uint8_t l) { return rule_.ignores(l); });
  }

  shape example() const override { return example_; }
  std::int64_t classes() const override { return classes_; }
  bool ignores_labels() const override { return ignores_; }
  std::int64_t size(split s) const override { return part(s).images.extents[0]; }
  channel_order picture_order() const override { return order_; }
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
    for (auto i : indices) *out++ = i < 0 || rule_.ignores(labels[i]) ? -1 : labels[i];
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
  label_rule rule_;
  bool ignores_ = false;
  shape example_;
  std::int64_t classes_;
  byte_scaling scaling_;
  channel_order order_;
  std::array<double, 256> as_double_{};
  std::array<float, 256> as_float_{};
};

// One of the four files: the option that names it, its name in MNIST, and its rank. Others spell
// the names with a dot ("train-images.idx3-ubyte"), and EMNIST's have the name of a split before
// them ("emnist-letters-test-images-idx3-ubyte"); all may end in .gz.
struct file_spec {
  const char* option;
  const char* usual_name;
  std::array<std::string_view, 2> split;  // words for it
  std::string_view what, type;
  int min_rank, max_rank;
};
constexpr file_spec train_images{"train_images", "train-images-idx3-ubyte", {"train", "train"}, "images", "idx3-ubyte", 2, 4};
constexpr file_spec train_labels{"train_labels", "train-labels-idx1-ubyte", {"train", "train"}, "labels", "idx1-ubyte", 1, 1};
constexpr file_spec test_images{"test_images", "t10k-images-idx3-ubyte", {"t10k", "test"}, "images", "idx3-ubyte", 2, 4};
constexpr file_spec test_labels{"test_labels", "t10k-labels-idx1-ubyte", {"t10k", "test"}, "labels", "idx1-ubyte", 1, 1};

bool is_name_of(const file_spec& f, std::string_view name) {
  if (name.ends_with(".gz")) name.remove_suffix(3);
  for (const auto split : f.split)
    for (const char between : {'-', '.'}) {
      const auto end = std::string(split) + "-" + std::string(f.what) + between + std::string(f.type);
      if (name == end || (name.starts_with("emnist-") && name.ends_with("-" + end))) return true;
    }
  return false;
}

// The files of a folder that have such a name, without FILE.gz beside FILE, in order.
std::vector<std::string> names_in(const std::string& folder, const file_spec& f) {
  std::vector<std::string> found;
  std::error_code unreadable;  // read_idx reports it
  for (std::filesystem::directory_iterator at(folder, unreadable), end; !unreadable && at != end; at.increment(unreadable))
    if (auto name = at->path().filename().string(); is_name_of(f, name)) found.push_back(std::move(name));
  std::sort(found.begin(), found.end());
  const auto all = found;
  std::erase_if(found, [&](const std::string& name) {
    return name.ends_with(".gz") && std::binary_search(all.begin(), all.end(), name.substr(0, name.size() - 3));
  });
  return found;
}

struct opened {
  idx_array array;
  std::string path;
  std::string key;  // the option to report
};

source_file file_of(const options& o, const file_spec& f) {
  const auto& folder = o.text("path");
  const auto& named = o.text(f.option);
  if (!named.empty()) return {f.option, named.front() == '/' ? named : folder + "/" + named};
  std::error_code unreadable;  // read_idx reports it
  for (const char* end : {"", ".gz"})
    if (auto usual = folder + "/" + f.usual_name + end; std::filesystem::exists(usual, unreadable))
      return {"path", std::move(usual)};
  const auto others = names_in(folder, f);
  return {"path", folder + "/" + (others.empty() ? std::string(f.usual_name) + ".gz" : others.front())};
}

// Refuses a folder in which several files may be the one, as that of EMNIST with all its splits.
// `chosen`: from file_of().
void check_only_one(const options& o, const file_spec& f, const source_file& chosen) {
  const auto& folder = o.text("path");
  if (!o.text(f.option).empty() || chosen.path.starts_with(folder + "/" + f.usual_name)) return;
  const auto names = names_in(folder, f);
  if (names.size() < 2) return;
  throw option_error(f.option, folder + ": several files have the name of the " + std::string(f.split[1]) + " " +
                                   std::string(f.what) + ", " + names[0] + " and " + names[1] + (names.size() > 2 ? ", ..." : "") +
                                   ": set " + f.option);
}

opened open_file(const options& o, const file_spec& f) {
  auto file = file_of(o, f);
  opened out{{}, std::move(file.path), std::move(file.key)};
  check_path_text(out.key, o.text("path") + o.text(f.option));
  check_only_one(o, f, {out.key, out.path});
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
std::int64_t infer_classes(const opened& labels, const label_rule& rule) {
  std::array<std::int64_t, 256> first{};
  first.fill(-1);
  for (std::int64_t i = labels.array.extents[0]; i-- > 0;)
    if (const auto v = labels.array.elements()[i]; !rule.ignores(v)) first[v] = i;
  if (std::all_of(first.begin(), first.end(), [](std::int64_t at) { return at < 0; }))
    throw option_error(labels.key, labels.path + ": every label is that of ignore_label");
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

void check_labels(const opened& labels, const label_rule& rule, std::int64_t classes) {
  for (std::int64_t i = 0; i < labels.array.extents[0]; ++i)
    if (const auto v = labels.array.elements()[i]; v >= classes && !rule.ignores(v))
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
  const label_rule rule(o, 256);
  if (classes == 0) classes = infer_classes(train.labels, rule);
  check_labels(train.labels, rule, classes);
  check_labels(test.labels, rule, classes);
  return std::make_shared<idx_source>(labelled{std::move(train.images.array), std::move(train.labels.array)},
                                      labelled{std::move(test.images.array), std::move(test.labels.array)}, example, classes, rule,
                                      o.real("scale"), o.real("mean"), channel_order_of(o));
}

option_spec text_option(std::string name, std::optional<option_value> fallback, std::string doc) {
  option_spec s;
  s.name = std::move(name);
  s.kind = option_kind::text;
  s.fallback = std::move(fallback);
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
  return {text_option("path", std::nullopt, "folder of the four files; train-images.idx3-ubyte and EMNIST's names are found, too"),
          text_option("train_images", none, "file, in path unless absolute; empty: train-images-idx3-ubyte or .gz"),
          text_option("train_labels", none, "likewise; empty: train-labels-idx1-ubyte or .gz"),
          text_option("test_images", none, "likewise; empty: t10k-images-idx3-ubyte or .gz"),
          text_option("test_labels", none, "likewise; empty: t10k-labels-idx1-ubyte or .gz"),
          classes,
          ignore_label_option(),
          real_option("scale", 1.0 / 255.0, "value = byte * scale - mean"),
          real_option("mean", 0.0, "subtracted after scaling"),
          channel_order_option(channel_order::rgb, "order of the planes of colour pictures [n, 3, height, width] in the files")};
}

constexpr std::array all_files{&train_images, &train_labels, &test_images, &test_labels};

// What the options name: the folder, and files. Reads nothing.
std::vector<source_file> named_files(const options& o) {
  std::vector<source_file> list{{"path", o.text("path")}};
  for (const auto* f : all_files)
    if (!o.text(f->option).empty()) list.push_back(file_of(o, *f));
  return list;
}
// The four files, with those found in the folder.
std::vector<source_file> found_files(const options& o) {
  std::vector<source_file> list;
  for (const auto* f : all_files) list.push_back(file_of(o, *f));
  return list;
}

}  // namespace

source_type idx_source_type() {
  return {"idx",       "Images and labels in the format of MNIST (IDX, unsigned bytes), plain or gzip. Kept in memory as bytes.",
          idx_specs(), open_idx,
          named_files, found_files};
}

}  // namespace troupe
