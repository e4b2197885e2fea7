// The images source: its files, labels and values, and every mistake in a folder or in the options.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>

#include "runtime/job/job.hpp"
#include "runtime/node/config/job_file.hpp"
#include "runtime/node/images/images.hpp"
#include "runtime/node/node_tables.hpp"
#include "tests/node/image_files.hpp"

namespace troupe {
namespace {

using namespace image_test;
using test::temp_dir;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
namespace fs = std::filesystem;

using keys = std::map<std::string, option_value, std::less<>>;

std::shared_ptr<const source> open(const std::string& path, keys more = {}) {
  const auto t = images_source_type();
  more["path"] = path;
  return t.open(check_options(options{std::move(more)}, t.specs), 1);
}

option_error open_error(const std::string& path, keys more = {}) {
  try {
    open(path, std::move(more));
  } catch (const option_error& e) {
    return e;
  }
  return option_error("", "no error");
}

struct batch {
  std::vector<double> data;
  std::vector<std::int32_t> label;
};
batch read(const source& s, split part, const std::vector<std::int64_t>& indices) {
  const auto n = static_cast<std::int64_t>(indices.size());
  batch b{std::vector<double>(indices.size() * static_cast<std::size_t>(s.example().count()), 99),
          std::vector<std::int32_t>(indices.size(), 99)};
  auto data = tensor::borrow(b.data.data(), shape{n, s.example()[0], s.example()[1], s.example()[2]}, dtype::f64);
  auto label = tensor::borrow(b.label.data(), shape{n}, dtype::i32);
  s.read(part, indices, data, label);
  return b;
}

std::vector<std::int64_t> all(const source& s, split part) {
  std::vector<std::int64_t> list;
  for (std::int64_t i = 0; i < s.size(part); ++i) list.push_back(i);
  return list;
}

// A file of one grey pixel, whose value identifies it.
bytes dot(std::uint8_t v) { return png_of(1, 1, {v}, {.colour = PNG_COLOR_TYPE_GRAY}); }

const keys grey_dots{{"channels", std::int64_t{1}}, {"scale", 1.0}};

// Two classes, two training images and a test image each, one pixel large.
struct dots {
  dots() {
    put(dir.file("train/a/1.png"), dot(1));
    put(dir.file("train/a/2.png"), dot(2));
    put(dir.file("train/b/1.png"), dot(3));
    put(dir.file("train/b/2.png"), dot(4));
    put(dir.file("test/a/1.png"), dot(5));
    put(dir.file("test/b/1.png"), dot(6));
  }
  temp_dir dir;
};

TEST(images_source, is_in_the_tables_of_the_program) {
  EXPECT_THAT(node_tables().sources.names(),
              ElementsAre("csv", "hdf5", "idx", "images", "lmdb", "numpy", "packed", "synthetic", "text"));
}

TEST(images_source, reads_planes_and_labels_in_the_order_of_names) {
  temp_dir dir;
  write_set(dir.path, {"dog", "cat", "Owl"}, 3, 2, 6);
  const auto s = open(dir.path);
  EXPECT_EQ(s->example(), (shape{3, 6, 6}));
  EXPECT_EQ(s->classes(), 3);
  EXPECT_EQ(s->size(split::train), 9);
  EXPECT_EQ(s->size(split::test), 6);
  EXPECT_THAT(read(*s, split::train, all(*s, split::train)).label, ElementsAre(0, 0, 0, 1, 1, 1, 2, 2, 2));  // Owl, cat, dog
  const auto b = read(*s, split::train, {6, -1});  // dog's first was written first, as PNG
  EXPECT_THAT(b.label, ElementsAre(2, -1));
  const auto entries = picture(6, 6, 3, 0);
  for (std::size_t c = 0; c < 3; ++c)
    for (std::size_t k = 0; k < 36; ++k) EXPECT_DOUBLE_EQ(b.data[c * 36 + k], entries[3 * k + c] / 255.0);
  for (std::size_t k = 108; k < 216; ++k) EXPECT_EQ(b.data[k], 0);
}

TEST(images_source, order_is_that_of_paths_and_not_of_the_file_system) {
  temp_dir dir;
  std::uint8_t v = 0;
  // In the order of torchvision: a folder's own files before those of the folders in it.
  for (const char* name : {"10.PNG", "2.jpeg", "z.png", "b/1.png", "b/a/1.png", "b-/1.png"})
    put(dir.file("train/k/" + std::string(name)), dot(++v));
  fs::rename(dir.file("train/k/10.PNG"), dir.file("train/k/t"));  // moves it within the folder
  fs::rename(dir.file("train/k/t"), dir.file("train/k/10.PNG"));
  put(dir.file("test/k/1.png"), dot(9));
  for (const char* name : {"train/k/.hidden.png", "train/k/readme.txt", "train/k/png", "train/list.csv", "train/.git/x.png"})
    put(dir.file(name), {'n', 'o'});
  const auto s = open(dir.path, grey_dots);
  EXPECT_THAT(read(*s, split::train, all(*s, split::train)).data, ElementsAre(1, 2, 3, 4, 6, 5));  // "k/b" < "k/b-" < "k/b/a"
  EXPECT_EQ(s->classes(), 1);
}

TEST(images_source, scale_and_mean_apply_to_all_or_to_each_channel) {
  temp_dir dir;
  for (const char* part : {"train", "test"}) put(dir.file(std::string(part) + "/k/1.png"), png_of(1, 1, {10, 20, 30}));
  EXPECT_THAT(read(*open(dir.path, {{"scale", 0.5}, {"mean", 1.0}}), split::train, {0}).data, ElementsAre(4, 9, 14));
  EXPECT_THAT(
      read(*open(dir.path, {{"channel_scale", std::vector<double>{1, 2, 3}}, {"channel_mean", std::vector<double>{5, 6, 7}}}),
           split::test, {0})
          .data,
      ElementsAre(5, 34, 83));
  EXPECT_EQ(open_error(dir.path, {{"channel_mean", std::vector<double>{1, 2}}}).key, "channel_mean");
}

TEST(images_source, f32_values_are_the_f64_values_rounded_once) {
  temp_dir dir;
  write_set(dir.path, {"x"}, 1, 1, 4);
  const auto s = open(dir.path, {{"mean", 0.4471}});
  std::vector<float> f(48);
  std::int32_t label = 9;
  auto data = tensor::borrow(f.data(), shape{1, 3, 4, 4}, dtype::f32);
  auto labels = tensor::borrow(&label, shape{1}, dtype::i32);
  s->read(split::train, {0}, data, labels);
  const auto d = read(*s, split::train, {0}).data;
  for (std::size_t i = 0; i < 48; ++i) EXPECT_EQ(f[i], static_cast<float>(d[i]));
}

TEST(images_source, another_size_names_the_file_and_both_sizes) {
  dots d;
  put(d.dir.file("train/b/3.png"), png_of(4, 2, picture(4, 2, 3, 1)));
  const auto e = open_error(d.dir.path, grey_dots);
  EXPECT_EQ(e.what(), d.dir.file("train/b/3.png") + ": is 2 x 4 pixels (height x width), not 1 x 1 as " +
                          d.dir.file("train/a/1.png") + "; set size, and resize = true to bring all to it");
  auto sized = grey_dots;
  sized["height"] = std::int64_t{2};
  sized["width"] = std::int64_t{4};
  EXPECT_EQ(open_error(d.dir.path, sized).what(), d.dir.file("train/a/1.png") +
                                                      ": is 1 x 1 pixels (height x width), not 2 x 4; set resize = "
                                                      "true to bring all to one size");
  sized["resize"] = true;
  const auto s = open(d.dir.path, sized);
  EXPECT_EQ(s->example(), (shape{1, 2, 4}));
  EXPECT_THAT(read(*s, split::train, {1}).data, testing::Each(2));
}

TEST(images_source, contradicting_sizes_are_errors) {
  dots d;
  EXPECT_EQ(open_error(d.dir.path, {{"size", std::int64_t{1}}, {"height", std::int64_t{1}}}).key, "size");
  EXPECT_THAT(open_error(d.dir.path, {{"width", std::int64_t{1}}}).what(), HasSubstr("width is set without height"));
  EXPECT_THAT(open_error(d.dir.path, {{"resize", true}}).what(), HasSubstr("resize has no target size"));
  EXPECT_EQ(open_error(d.dir.path, {{"channels", std::int64_t{2}}}).key, "channels");
}

TEST(images_source, a_class_may_be_missing_in_test_but_not_be_new) {
  dots d;
  fs::remove_all(d.dir.file("test/a"));
  auto s = open(d.dir.path, grey_dots);
  EXPECT_EQ(s->classes(), 2);
  EXPECT_THAT(read(*s, split::test, {0}).label, ElementsAre(1));
  put(d.dir.file("test/c/1.png"), dot(1));
  EXPECT_EQ(open_error(d.dir.path).what(), d.dir.file("test/c") + ": there is no such class in " + d.dir.file("train"));
}

TEST(images_source, absent_or_empty_folders_are_errors) {
  temp_dir dir;
  EXPECT_THAT(open_error(dir.path).what(),
              StartsWith(dir.file("train") + ": cannot open the folder: No such file or directory; a data set has"));
  fs::create_directories(dir.file("train"));
  EXPECT_THAT(open_error(dir.path).what(), HasSubstr("train: no class folders found"));
  fs::create_directories(dir.file("train/a"));
  EXPECT_EQ(open_error(dir.path).what(), dir.file("train/a") + ": a class without images (.png, .jpg, .jpeg)");
  put(dir.file("train/a/1.png"), dot(1));
  EXPECT_THAT(open_error(dir.path).what(), HasSubstr("/test: cannot open the folder"));
  fs::create_directories(dir.file("test/a"));
  EXPECT_EQ(open_error(dir.path).what(), dir.file("test") + ": no images found");
  const auto e = open_error(dir.path, {{"test_path", std::string("nowhere")}});
  EXPECT_EQ(e.key, "test_path");
  EXPECT_THAT(e.what(), StartsWith(dir.file("nowhere")));
  EXPECT_EQ(open_error(std::string("a\0b", 3)).key, "path");
  EXPECT_EQ(open_error("").key, "path");
}

TEST(images_source, damaged_files_are_named_when_the_source_is_opened) {
  dots d;
  const auto bad = d.dir.file("test/b/2.jpg");
  put(bad, {});
  EXPECT_EQ(open_error(d.dir.path).what(), bad + ": an empty file");
  auto jpeg = jpeg_of(1, 1, {1, 2, 3});
  jpeg.resize(jpeg.size() - 8);
  put(bad, jpeg);
  EXPECT_THAT(open_error(d.dir.path).what(), StartsWith(bad + ": broken JPEG: Premature end"));
  put(bad, {'h', 'e', 'l', 'l', 'o'});
  EXPECT_EQ(open_error(d.dir.path).what(), bad + ": neither a PNG nor a JPEG, by its first bytes");
  fs::remove(bad);
  put(d.dir.file("train/a/3.webp"), {'R'});
  EXPECT_EQ(open_error(d.dir.path).what(),
            d.dir.file("train/a/3.webp") + ": only PNG and JPEG images can be read: convert it, or move it away");
}

TEST(images_source, links_are_followed_but_not_in_circles_and_pipes_are_refused) {
  dots d;
  fs::create_directory_symlink(d.dir.file("train/b"), d.dir.file("train/c"));
  EXPECT_EQ(open(d.dir.path)->classes(), 3);
  fs::create_directory_symlink(d.dir.file("train/a"), d.dir.file("train/a/up"));
  EXPECT_EQ(open_error(d.dir.path).what(), d.dir.file("train/a/up") + ": a symbolic link to a folder above it");
  fs::remove(d.dir.file("train/a/up"));
  fs::create_directory_symlink(d.dir.path, d.dir.file("train/a/up"));  // to the folder that contains train
  EXPECT_THAT(open_error(d.dir.path).what(), HasSubstr("a symbolic link to a folder above it"));
  fs::remove(d.dir.file("train/a/up"));
  fs::create_symlink("self.png", d.dir.file("train/a/self.png"));
  EXPECT_THAT(open_error(d.dir.path).what(), StartsWith(d.dir.file("train/a/self.png") + ": Too many levels of symbolic links"));
  fs::remove(d.dir.file("train/a/self.png"));
  ASSERT_EQ(::mkfifo(d.dir.file("train/a/pipe.png").c_str(), 0600), 0);
  EXPECT_EQ(open_error(d.dir.path).what(), d.dir.file("train/a/pipe.png") + ": not a regular file");
}

TEST(images_source, memory_is_checked_before_images_are_loaded) {
  temp_dir dir;
  for (const char* part : {"train", "test"}) put(dir.file(std::string(part) + "/k/1.png"), dot(1));
  const auto e = open_error(dir.path, {{"memory_mib", std::int64_t{1}}, {"size", std::int64_t{1000}}, {"resize", true}});
  EXPECT_EQ(e.key, "memory_mib");
  EXPECT_THAT(e.what(), StartsWith("2 images of 3000000 bytes are more than memory_mib = 1 allows"));
  EXPECT_EQ(open_error(dir.path, {{"memory_mib", std::int64_t{6}}, {"size", std::int64_t{1000}}, {"resize", true}}).what(),
            std::string("no error"));
}

TEST(images_source, test_fraction_takes_that_part_of_each_class_for_testing) {
  temp_dir dir, moved;
  for (int c = 0; c < 2; ++c)
    for (int i = 0; i < 20; ++i)
      put(dir.file("c" + std::to_string(c) + "/" + std::to_string(i) + ".png"), dot(static_cast<std::uint8_t>(100 * c + i)));
  fs::copy(dir.path, moved.path + "/train", fs::copy_options::recursive);
  auto with = grey_dots;
  with["test_fraction"] = 0.25;
  const auto far = open(moved.path, with);
  with["train_path"] = std::string(".");
  const auto near = open(dir.path, with);
  ASSERT_EQ(near->size(split::train), 30);
  ASSERT_EQ(near->size(split::test), 10);
  const auto a = read(*near, split::train, all(*near, split::train)), b = read(*near, split::test, all(*near, split::test));
  EXPECT_EQ(std::count(b.label.begin(), b.label.end(), 1), 5);
  auto seen = a.data;
  seen.insert(seen.end(), b.data.begin(), b.data.end());
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::unique(seen.begin(), seen.end()) - seen.begin(), 40);
  EXPECT_EQ(read(*far, split::test, all(*far, split::test)).data, b.data);  // by names, not by the folder's path
  with["test_path"] = std::string("x");
  EXPECT_EQ(open_error(dir.path, with).key, "test_fraction");
  EXPECT_THAT(open_error(dir.path, {{"train_path", std::string(".")}, {"test_fraction", 0.001}}).what(),
              HasSubstr("selects no image"));
}

// Errors of a job name the position in its file.
TEST(images_source, errors_of_a_job_point_at_the_key) {
  temp_dir dir;
  write_set(dir.path, {"x", "y"}, 4, 1, 8);
  const auto all_rows = std::make_shared<const tables>(node_tables());
  const auto place = [&](const std::string& data) {
    const std::string text =
        "[job]\nname = \"j\"\n[data]\nsource = \"images\"\n" + data +
        "batch = 4\n[[layer]]\nname = \"ip\"\ntype = \"linear\"\ninputs = [\"data\"]\noutputs = 2\n[[layer]]\nname = "
        "\"loss\"\ntype = \"softmax_loss\"\ninputs = [\"ip\", \"label\"]\n[train]\ndynamics = { rule = \"sgd\", lr = "
        "0.1 }\nsync = { mode = \"bsp\" }\nfinish = { steps = 1 }\n";
    auto spec = parse_job(text, "job.toml", *all_rows, {});
    if (!spec) return spec.error().front().to_string();
    node_spec n;
    n.name = "local";
    auto job = prepare_job(*std::move(spec), all_rows, {n});
    if (!job) return job.error().front().to_string();
    return std::string("no error");
  };
  const auto path = "path = \"" + dir.path + "\"\n";
  EXPECT_EQ(place(path), "no error");
  EXPECT_THAT(place(path + "sise = 8\n"), StartsWith("job.toml:6:1: [data]: unknown key 'sise'; did you mean 'size'?"));
  EXPECT_THAT(place("size = 9\n" + path), StartsWith("job.toml:6:1: " + dir.file("train/x/1000.png") + ": is 8 x 8 pixels"));
  EXPECT_THAT(place(path + "channels = 4\n"), StartsWith("job.toml:6:1: "));
  EXPECT_THAT(place(path + "resize = true\n"), StartsWith("job.toml:6:1: resize has no target size"));
  EXPECT_THAT(place(path + "test_path = \"no\"\n"), StartsWith("job.toml:6:1: " + dir.file("no") + ": cannot open the folder"));
}

keys uncached(keys more = {}) {
  more["cache"] = std::string("none");
  return more;
}

TEST(images_source, values_are_the_same_without_a_cache) {
  temp_dir dir;
  write_set(dir.path, {"cat", "dog", "owl"}, 5, 3, 6);
  for (const bool resized : {false, true}) {
    keys k{{"channel_mean", std::vector<double>{0.1, 0.2, 0.3}}};
    if (resized) k["size"] = std::int64_t{4}, k["resize"] = true;
    const auto kept = open(dir.path, k), read_anew = open(dir.path, uncached(k));
    EXPECT_FALSE(kept->decodes());
    EXPECT_TRUE(read_anew->decodes());
    ASSERT_EQ(read_anew->example(), kept->example());
    for (auto part : {split::train, split::test}) {
      ASSERT_EQ(read_anew->size(part), kept->size(part));
      auto which = all(*kept, part);
      which.push_back(-1);
      const auto want = read(*kept, part, which), got = read(*read_anew, part, which);
      EXPECT_EQ(got.data, want.data);
      EXPECT_EQ(got.label, want.label);
      std::vector<std::uint8_t> a(which.size() * static_cast<std::size_t>(kept->example().count()), 1), b(a.size(), 2);
      kept->read_bytes(part, which, a.data());
      read_anew->read_bytes(part, which, b.data());
      EXPECT_EQ(a, b);
    }
  }
}

TEST(images_source, sizes_are_checked_at_the_start_without_a_cache) {
  dots d;
  put(d.dir.file("train/b/3.png"), png_of(4, 2, picture(4, 2, 3, 1)));
  EXPECT_EQ(open_error(d.dir.path, uncached(grey_dots)).what(), std::string(open_error(d.dir.path, grey_dots).what()));
  put(d.dir.file("train/b/3.png"), jpeg_of(4, 2, picture(4, 2, 3, 1)));
  EXPECT_THAT(open_error(d.dir.path, uncached(grey_dots)).what(), HasSubstr("train/b/3.png: is 2 x 4 pixels"));
  put(d.dir.file("train/b/3.png"), {'x'});
  EXPECT_THAT(open_error(d.dir.path, uncached(grey_dots)).what(), HasSubstr("train/b/3.png: neither a PNG nor a JPEG"));
  // A header far behind the first bytes: a JPEG with a long comment.
  auto far = jpeg_of(1, 1, {1, 2, 3});
  const bytes comment = [] {
    bytes c{0xff, 0xfe, 0xff, 0xff};
    c.resize(2 + 0xffff, 'c');
    return c;
  }();
  far.insert(far.begin() + 2, comment.begin(), comment.end());
  put(d.dir.file("train/b/3.png"), far);
  EXPECT_EQ(open(d.dir.path, uncached(grey_dots))->size(split::train), 5);
}

TEST(images_source, a_file_damaged_later_is_named_without_a_cache) {
  dots d;
  const auto s = open(d.dir.path, uncached(grey_dots));
  const auto text = [&](std::int64_t i) {
    try {
      read(*s, split::train, {i});
      return std::string("no error");
    } catch (const std::runtime_error& e) {
      return std::string(e.what());
    }
  };
  EXPECT_EQ(text(3), "no error");
  put(d.dir.file("train/b/2.png"), {0x89, 'P', 'N'});
  EXPECT_EQ(text(3), d.dir.file("train/b/2.png") + ": neither a PNG nor a JPEG, by its first bytes");
  fs::remove(d.dir.file("train/b/2.png"));
  EXPECT_THAT(text(3), StartsWith(d.dir.file("train/b/2.png") + ": cannot open: No such file"));
  put(d.dir.file("train/b/2.png"), png_of(2, 2, picture(2, 2, 3, 1)));
  EXPECT_EQ(text(3),
            d.dir.file("train/b/2.png") + ": is 2 x 2 pixels (height x width), not 1 x 1; it had that size when the job began");
  EXPECT_EQ(text(2), "no error");
}

}  // namespace
}  // namespace troupe
