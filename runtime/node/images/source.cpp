#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <new>
#include <system_error>
#include <utility>

#include "runtime/data/byte_tables.hpp"
#include "runtime/data/random.hpp"
#include "runtime/memory/process_memory.hpp"
#include "runtime/node/images/folder.hpp"
#include "runtime/node/images/image_file.hpp"
#include "runtime/node/images/images.hpp"
#include "runtime/node/images/resize.hpp"
#include "runtime/node/images/settings.hpp"

namespace troupe {
namespace {

using namespace images;

struct labelled_file {
  std::string path;
  std::int32_t label = 0;
};

// Base of both cache modes: labels, shape, and the conversion of bytes to values.
class image_source : public source {
 public:
  image_source(const std::vector<labelled_file>& train, const std::vector<labelled_file>& test, shape example,
               std::vector<std::string> classes, const settings& s)
      : example_(example),
        order_(s.order),
        classes_(std::move(classes)),
        scaling_(scaling_of(s)),
        tables_(scaling_),
        resizes_(s.resize) {
    for (const auto& f : train) labels_[0].push_back(f.label);
    for (const auto& f : test) labels_[1].push_back(f.label);
  }

  shape example() const override { return example_; }
  std::int64_t classes() const override { return static_cast<std::int64_t>(classes_.size()); }
  std::vector<std::string> class_names() const override { return classes_; }
  std::int64_t size(split s) const override { return static_cast<std::int64_t>(labels_[index(s)].size()); }

  channel_order picture_order() const override { return order_; }
  std::optional<byte_scaling> bytes() const override { return scaling_; }
  bool resizes() const override { return resizes_; }
  void read_bytes(split s, const std::vector<std::int64_t>& indices, std::uint8_t* out) const override {
    const auto n = static_cast<std::size_t>(example_.count());
    std::vector<std::uint8_t> room;
    for (auto i : indices) {
      if (i < 0)
        std::memset(out, 0, n);
      else
        std::memcpy(out, planes(s, i, room), n);
      out += n;
    }
  }

  void read(split s, const std::vector<std::int64_t>& indices, tensor& data, tensor& label) const override {
    assert(data.count() == static_cast<std::int64_t>(indices.size()) * example_.count());
    assert(data.type() == dtype::f32 || data.type() == dtype::f64);
    if (data.type() == dtype::f64)
      fill(s, indices, data.mutable_data<double>());
    else
      fill(s, indices, data.mutable_data<float>());
    assert(label.count() == static_cast<std::int64_t>(indices.size()));
    auto* out = label.mutable_data<std::int32_t>();
    for (auto i : indices) *out++ = i < 0 ? -1 : labels_[index(s)][static_cast<std::size_t>(i)];
  }

 protected:
  static std::size_t index(split s) { return s == split::train ? 0 : 1; }
  // The bytes of example i, plane by plane as layers expect them; `room` may be used to hold them.
  virtual const std::uint8_t* planes(split s, std::int64_t i, std::vector<std::uint8_t>& room) const = 0;

 private:
  template <class T>
  void fill(split s, const std::vector<std::int64_t>& indices, T* out) const {
    const auto n = static_cast<std::size_t>(example_.count());
    std::vector<std::uint8_t> room;
    for (auto i : indices) {
      assert(i < size(s));
      if (i < 0)
        std::memset(out, 0, n * sizeof(T));
      else
        tables_.fill(planes(s, i, room), n, out);
      out += n;
    }
  }

  static byte_scaling scaling_of(const settings& s) {
    byte_scaling b;
    for (std::size_t c = 0; c < static_cast<std::size_t>(s.channels); ++c)
      b.scale.push_back(s.scale[c]), b.mean.push_back(s.mean[c]);
    return b;
  }

  shape example_;
  channel_order order_;
  std::vector<std::string> classes_;  // names
  byte_scaling scaling_;
  byte_tables tables_;
  bool resizes_;
  std::array<std::vector<std::int32_t>, 2> labels_;
};

std::vector<class_folder> classes_in(const folder_choice& f) {
  auto r = list_classes(f.path);
  if (!r) {
    std::error_code unreadable;
    const bool absent = f.key == "path" && !std::filesystem::exists(f.path, unreadable);
    throw option_error(
        f.key, r.error().text + (absent ? "; a data set has train/CLASS/ and test/CLASS/: else set train_path, and test_path "
                                          "or test_fraction"
                                        : ""));
  }
  return *std::move(r);
}

// Takes a fraction of each class for testing: the files whose names hash lowest. The choice does
// not depend on the job's seed, and a file that is added later changes as little as possible. At
// least one image per class remains for training.
void split_off(const settings& s, std::vector<class_folder>& train, std::vector<class_folder>& test) {
  for (auto& c : train) {
    std::vector<std::pair<std::uint64_t, std::size_t>> order;
    for (std::size_t i = 0; i < c.files.size(); ++i) {
      std::uint64_t h = 0xcbf29ce484222325u;  // FNV-1a, then mixed
      for (unsigned char b : c.files[i].substr(s.train.path.size())) h = (h ^ b) * 0x100000001b3u;
      order.emplace_back(hash_at(h, 0), i);
    }
    std::sort(order.begin(), order.end());
    const auto wanted = static_cast<std::size_t>(std::lround(s.test_fraction * static_cast<double>(order.size())));
    std::vector<bool> tested(order.size());
    for (std::size_t k = 0; k < std::min(wanted, order.size() - 1); ++k) tested[order[k].second] = true;
    class_folder kept{c.name, {}}, taken{c.name, {}};
    for (std::size_t i = 0; i < tested.size(); ++i) (tested[i] ? taken : kept).files.push_back(std::move(c.files[i]));
    c = std::move(kept);
    test.push_back(std::move(taken));
  }
}

// Labels are indices in the list of training classes, in the test set too: the test set may lack a
// class, but not have a new one.
std::vector<labelled_file> labelled(const std::vector<class_folder>& folders, const std::vector<class_folder>& classes,
                                    const settings& s) {
  std::vector<labelled_file> out;
  for (const auto& f : folders) {
    const auto at = std::lower_bound(classes.begin(), classes.end(), f.name,
                                     [](const class_folder& c, const std::string& name) { return c.name < name; });
    if (at == classes.end() || at->name != f.name)
      throw option_error(s.test.key, s.test.path + "/" + f.name + ": there is no such class in " + s.train.path);
    for (const auto& path : f.files) out.push_back({path, static_cast<std::int32_t>(at - classes.begin())});
  }
  return out;
}

// `e` with advice if it is about the image's size, which the settings fix.
std::string with_advice(const std::string& e, wanted_size want, const std::string& advice) {
  return e + (e.rfind("is ", 0) == 0 && want.height != 0 ? advice : "");
}

// The image in a file, of the size in the settings, or of any size if that is 0. Throws
// option_error.
image load(const std::string& path, const settings& s, const std::string& key, const std::string& why) {
  const wanted_size want{s.resize ? 0 : s.height, s.resize ? 0 : s.width};
  auto r = read_image(path, s.channels, want);
  if (!r) throw option_error(key, path + ": " + with_advice(r.error().text, want, why));
  auto m = *std::move(r);
  return s.resize ? resized(m, s.height, s.width) : m;
}

std::vector<std::uint8_t> load_all(const std::vector<labelled_file>& files, const settings& s, const std::string& key,
                                   const std::string& why) {
  std::vector<std::uint8_t> out;
  out.reserve(files.size() * static_cast<std::size_t>(s.channels * s.height * s.width));
  for (const auto& f : files) append_planes(load(f.path, s, key, why), s.order, out);
  return out;
}

// cache = "memory": every image decoded, [n][channels][height][width].
class decoded_images final : public image_source {
 public:
  decoded_images(std::array<std::vector<std::uint8_t>, 2> bytes, const std::vector<labelled_file>& train,
                 const std::vector<labelled_file>& test, shape example, std::vector<std::string> classes, const settings& s)
      : image_source(train, test, example, std::move(classes), s), bytes_(std::move(bytes)) {}

 protected:
  const std::uint8_t* planes(split s, std::int64_t i, std::vector<std::uint8_t>&) const override {
    return bytes_[index(s)].data() + i * example().count();
  }

 private:
  std::array<std::vector<std::uint8_t>, 2> bytes_;
};

// cache = "none": decoded on each read.
class image_files final : public image_source {
 public:
  image_files(std::vector<labelled_file> train, std::vector<labelled_file> test, shape example, std::vector<std::string> classes,
              const settings& s)
      : image_source(train, test, example, std::move(classes), s), settings_(s), files_{std::move(train), std::move(test)} {}
  bool decodes() const override { return true; }

 protected:
  const std::uint8_t* planes(split s, std::int64_t i, std::vector<std::uint8_t>& room) const override {
    room.clear();
    append_planes(
        load(files_[index(s)][static_cast<std::size_t>(i)].path, settings_, "path", "; it had that size when the job began"),
        settings_.order, room);
    return room.data();
  }

 private:
  settings settings_;
  std::array<std::vector<labelled_file>, 2> files_;
};

void check_sizes(const std::vector<labelled_file>& files, const settings& s, const std::string& key, const std::string& why) {
  const wanted_size want{s.resize ? 0 : s.height, s.resize ? 0 : s.width};
  for (const auto& f : files) {
    const auto r = size_of_image_file(f.path, want);
    if (!r) throw option_error(key, f.path + ": " + with_advice(r.error().text, want, why));
  }
}

void check_memory(const settings& s, std::size_t files) {
  const auto one = s.channels * s.height * s.width;
  const auto n = static_cast<std::int64_t>(files);
  const auto left = static_cast<std::int64_t>(std::min<std::uint64_t>(memory_left(), INT64_MAX));
  if (one <= s.max_bytes / n && one > left / 4 * 3 / n)
    throw option_error("path", std::to_string(n) + " images of " + std::to_string(one) +
                                   " bytes are more than three quarters of the " + std::to_string(left) +
                                   " bytes of free memory: make them smaller with size and resize, or set cache = \"none\"");
  if (one > s.max_bytes / n)
    throw option_error("memory_mib", std::to_string(n) + " images of " + std::to_string(one) +
                                         " bytes are more than memory_mib = " + std::to_string(s.max_bytes >> 20) +
                                         " allows: raise it, make them smaller with size and resize, or set cache = \"none\"");
}

std::shared_ptr<const source> open_images(const options& o, std::uint64_t) {
  auto s = read_settings(o);
  auto classes = classes_in(s.train);
  for (const auto& c : classes)
    if (c.files.empty())
      throw option_error(s.train.key, s.train.path + "/" + c.name + ": a class without images (.png, .jpg, .jpeg)");
  std::vector<class_folder> of_test;
  if (s.test.path.empty())
    split_off(s, classes, of_test);
  else
    of_test = classes_in(s.test);
  const auto train = labelled(classes, classes, s), test = labelled(of_test, classes, s);
  if (test.empty())
    throw option_error(
        s.test.path.empty() ? "test_fraction" : s.test.key,
        s.test.path.empty() ? "test_fraction is too small: it selects no image of any class" : s.test.path + ": no images found");
  std::string why = "; set resize = true to bring all to one size";
  if (s.height == 0) {
    const auto first = load(train[0].path, s, s.train.key, {});
    s.height = first.height;
    s.width = first.width;
    why = " as " + train[0].path + "; set size, and resize = true to bring all to it";
  }
  const auto test_key = s.test.path.empty() ? s.train.key : s.test.key;
  const shape example{s.channels, s.height, s.width};
  std::vector<std::string> names;
  for (const auto& c : classes) names.push_back(c.name);
  if (!s.keep) {
    check_sizes(train, s, s.train.key, why);
    check_sizes(test, s, test_key, why);
    return std::make_shared<image_files>(train, test, example, names, s);
  }
  check_memory(s, train.size() + test.size());
  try {
    return std::make_shared<decoded_images>(std::array{load_all(train, s, s.train.key, why), load_all(test, s, test_key, why)},
                                            train, test, example, names, s);
  } catch (const std::bad_alloc&) {
    throw option_error("memory_mib", s.train.path + ": the images do not fit into memory");
  }
}

std::vector<source_file> folders_of(const options& o) {
  const auto s = read_settings(o);
  std::vector<source_file> list{{s.train.key, s.train.path, true}};
  if (!s.test.path.empty()) list.push_back({s.test.key, s.test.path, true});
  return list;
}

}  // namespace

source_type images_source_type() {
  return {"images",
          "Labelled image folders, train/CLASS/ and test/CLASS/ (PNG, JPEG). Decoded at the start and kept in memory as bytes, or "
          "decoded on each "
          "read (cache = \"none\").",
          option_list(), open_images, folders_of};
}

}  // namespace troupe
