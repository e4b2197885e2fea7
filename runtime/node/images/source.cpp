#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <new>
#include <system_error>
#include <utility>

#include "runtime/data/random.hpp"
#include "runtime/node/images/decode.hpp"
#include "runtime/node/images/folder.hpp"
#include "runtime/node/images/images.hpp"
#include "runtime/node/images/resize.hpp"
#include "runtime/node/images/settings.hpp"
#include "runtime/record/file_io.hpp"

namespace troupe {
namespace {

using namespace images;

constexpr std::uintmax_t max_file_bytes = std::uintmax_t{512} << 20;  // more than decode.hpp's max_pixels at 48 bits

struct labelled_file {
  std::string path;
  std::int32_t label = 0;
};

// Decoded images, plane by plane as layers take them: [n][channels][height][width].
struct pixel_store {
  std::vector<std::uint8_t> bytes;
  std::vector<std::int32_t> labels;
};

class image_source final : public source {
 public:
  image_source(pixel_store train, pixel_store test, shape example, std::int64_t classes, const settings& s)
      : parts_{std::move(train), std::move(test)}, example_(example), classes_(classes) {
    for (std::size_t c = 0; c < 3; ++c)
      for (std::size_t i = 0; i < 256; ++i) {
        as_double_[c][i] = static_cast<double>(i) * s.scale[c] - s.mean[c];
        as_float_[c][i] = static_cast<float>(as_double_[c][i]);
      }
  }

  shape example() const override { return example_; }
  std::int64_t classes() const override { return classes_; }
  std::int64_t size(split s) const override { return static_cast<std::int64_t>(part(s).labels.size()); }

  void read(split s, const std::vector<std::int64_t>& indices, tensor& data, tensor& label) const override {
    assert(data.count() == static_cast<std::int64_t>(indices.size()) * example_.count());
    assert(data.type() == dtype::f32 || data.type() == dtype::f64);
    if (data.type() == dtype::f64)
      copy(s, indices, data.mutable_data<double>(), as_double_);
    else
      copy(s, indices, data.mutable_data<float>(), as_float_);
    assert(label.count() == static_cast<std::int64_t>(indices.size()));
    auto* out = label.mutable_data<std::int32_t>();
    for (auto i : indices) *out++ = i < 0 ? -1 : part(s).labels[static_cast<std::size_t>(i)];
  }

 private:
  template <class T>
  using tables_of = std::array<std::array<T, 256>, 3>;  // of each channel: the value of a byte, computed in double, rounded once

  const pixel_store& part(split s) const { return parts_[s == split::train ? 0 : 1]; }

  template <class T>
  void copy(split s, const std::vector<std::int64_t>& indices, T* out, const tables_of<T>& tables) const {
    const auto plane = static_cast<std::size_t>(example_[1] * example_[2]), channels = static_cast<std::size_t>(example_[0]);
    for (auto i : indices) {
      assert(i < size(s));
      if (i < 0) {
        std::memset(out, 0, channels * plane * sizeof(T));
        out += channels * plane;
        continue;
      }
      const auto* in = part(s).bytes.data() + static_cast<std::size_t>(i) * channels * plane;
      for (std::size_t c = 0; c < channels; ++c)
        for (std::size_t k = 0; k < plane; ++k) *out++ = tables[c][*in++];
    }
  }

  std::array<pixel_store, 2> parts_;
  shape example_;
  std::int64_t classes_;
  tables_of<double> as_double_{};
  tables_of<float> as_float_{};
};

std::vector<class_folder> classes_in(const folder_choice& f) {
  auto r = list_classes(f.path);
  if (auto* e = std::get_if<std::string>(&r)) {
    std::error_code unreadable;
    const bool absent = f.key == "path" && !std::filesystem::exists(f.path, unreadable);
    throw option_error(f.key, *e + (absent ? "; a data set has train/CLASS/ and test/CLASS/: else set train_path, and test_path "
                                             "or test_fraction"
                                           : ""));
  }
  return std::get<std::vector<class_folder>>(std::move(r));
}

// Takes a part of each class for testing: those whose names hash lowest, so that neither the job's seed nor a file that is added
// later moves the others about more than it must. A class keeps at least one image for training.
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

// Labels are places in the list of training classes, in the test set too: a class may be missing there, but not be new.
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

// The image in a file, of the size that is asked for or, where it is 0, its own. Throws option_error.
image load(const std::string& path, const settings& s, const std::string& key, const std::string& why) {
  std::error_code unreadable;  // answered by read_file, with its reason
  const auto bytes = std::filesystem::file_size(path, unreadable);
  if (!unreadable && bytes > max_file_bytes)
    throw option_error(key, path + ": " + std::to_string(bytes) + " bytes are more than an image may have");
  auto file = read_file(path);
  if (auto* e = std::get_if<std::string>(&file)) throw option_error(key, path + ": " + *e);
  const auto& f = std::get<file_bytes>(file);
  const wanted_size want{s.resize ? 0 : s.height, s.resize ? 0 : s.width};
  auto r = decode_image({static_cast<const std::uint8_t*>(f.data.get()), f.bytes}, s.channels, want);
  if (auto* e = std::get_if<std::string>(&r))
    throw option_error(key, path + ": " + *e + (e->rfind("is ", 0) == 0 && want.height != 0 ? why : ""));
  auto m = std::get<image>(std::move(r));
  return s.resize ? resized(m, s.height, s.width) : m;
}

void append_planes(const image& m, std::vector<std::uint8_t>& out) {
  const auto channels = static_cast<std::size_t>(m.channels);
  for (std::size_t c = 0; c < channels; ++c)
    for (auto k = c; k < m.bytes.size(); k += channels) out.push_back(m.bytes[k]);
}

pixel_store load_all(const std::vector<labelled_file>& files, const settings& s, const std::string& key, const std::string& why) {
  pixel_store out;
  out.bytes.reserve(files.size() * static_cast<std::size_t>(s.channels * s.height * s.width));
  for (const auto& f : files) {
    append_planes(load(f.path, s, key, why), out.bytes);
    out.labels.push_back(f.label);
  }
  return out;
}

void check_memory(const settings& s, std::size_t files) {
  const auto one = s.channels * s.height * s.width;
  const auto n = static_cast<std::int64_t>(files);
  if (one > s.most_bytes / n)
    throw option_error("memory_mib", std::to_string(n) + " images of " + std::to_string(one) +
                                         " bytes are more than memory_mib = " + std::to_string(s.most_bytes >> 20) +
                                         " allows: raise it, or make them smaller by size and resize");
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
    throw option_error(s.test.path.empty() ? "test_fraction" : s.test.key,
                       s.test.path.empty() ? "test_fraction takes no image from any class" : s.test.path + ": it has no images");
  std::string why = "; set resize = true to bring all to one size";
  if (s.height == 0) {
    const auto first = load(train[0].path, s, s.train.key, {});
    s.height = first.height;
    s.width = first.width;
    why = " as " + train[0].path + "; set size, and resize = true to bring all to it";
  }
  check_memory(s, train.size() + test.size());
  const auto test_key = s.test.path.empty() ? s.train.key : s.test.key;
  try {
    auto of_training = load_all(train, s, s.train.key, why);
    auto of_testing = load_all(test, s, test_key, why);
    return std::make_shared<image_source>(std::move(of_training), std::move(of_testing), shape{s.channels, s.height, s.width},
                                          static_cast<std::int64_t>(classes.size()), s);
  } catch (const std::bad_alloc&) {
    throw option_error("memory_mib", s.train.path + ": the images do not fit into memory");
  }
}

}  // namespace

source_type images_source_type() {
  return {"images",
          "Labelled image folders, train/CLASS/ and test/CLASS/ (PNG, JPEG). Decoded at the start, kept in memory as bytes.",
          option_list(), open_images};
}

}  // namespace troupe
