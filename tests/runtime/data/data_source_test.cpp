#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <set>

#include "runtime/data/idx_file.hpp"
#include "runtime/data/random.hpp"
#include "runtime/data/source.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe {
namespace {

using test::temp_dir;
using bytes = std::vector<std::uint8_t>;
using testing::HasSubstr;

const std::string fashion = "/usr/share/datasets/fashion-mnist";

bytes make_idx(std::vector<std::uint32_t> extents, bytes elements) {
  bytes out{0, 0, 8, static_cast<std::uint8_t>(extents.size())};
  for (auto e : extents)
    for (int shift : {24, 16, 8, 0}) out.push_back(static_cast<std::uint8_t>(e >> shift));
  out.insert(out.end(), elements.begin(), elements.end());
  return out;
}

bytes gzip(const bytes& in) {
  z_stream z{};
  deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  bytes out(deflateBound(&z, in.size()) + 64);
  z.next_in = const_cast<Bytef*>(in.data());
  z.avail_in = static_cast<uInt>(in.size());
  z.next_out = out.data();
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

bytes ramp(std::size_t n, unsigned mod = 256) {
  bytes b(n);
  for (std::size_t i = 0; i < n; ++i) b[i] = static_cast<std::uint8_t>(i % mod);
  return b;
}

// A folder with four small valid files: 6 training and 3 test images of 2 x 3, labels 0..2.
struct small_set {
  small_set() {
    test::write_bytes(dir.file("train-images-idx3-ubyte"), make_idx({6, 2, 3}, ramp(36)));
    test::write_bytes(dir.file("train-labels-idx1-ubyte"), make_idx({6}, ramp(6, 3)));
    test::write_bytes(dir.file("t10k-images-idx3-ubyte"), make_idx({3, 2, 3}, ramp(18)));
    test::write_bytes(dir.file("t10k-labels-idx1-ubyte"), make_idx({3}, ramp(3, 3)));
  }
  temp_dir dir;
};

std::shared_ptr<const source> open_source(const std::string& kind, options o, std::uint64_t seed = 1) {
  source_registry r;
  add_stock_sources(r);
  const auto* t = r.find(kind);
  return t->open(check_options(o, t->specs), seed);
}
std::shared_ptr<const source> open_idx(const std::string& path, options o = {}) {
  o.values["path"] = path;
  return open_source("idx", o);
}
option_error source_error_of(const std::string& kind, const options& o) {
  try {
    open_source(kind, o);
  } catch (const option_error& e) {
    return e;
  }
  return option_error("", "no error");
}
option_error idx_error(const std::string& path, options o = {}) {
  o.values["path"] = path;
  return source_error_of("idx", o);
}

template <class T>
struct batch_of {
  std::vector<T> data;
  std::vector<std::int32_t> label;
};
template <class T>
batch_of<T> read_source(const source& s, split part, const std::vector<std::int64_t>& indices) {
  const auto n = static_cast<std::int64_t>(indices.size());
  batch_of<T> b{std::vector<T>(indices.size() * static_cast<std::size_t>(s.example().count()), T{99}),
                std::vector<std::int32_t>(indices.size(), 99)};
  shape dims{n};
  for (int i = 0; i < s.example().rank(); ++i) dims.push_back(s.example()[i]);
  auto data = tensor::borrow(b.data.data(), dims, dtype_of<T>);
  auto label = tensor::borrow(b.label.data(), shape{n}, dtype::i32);
  s.read(part, indices, data, label);
  return b;
}

TEST(data_source, registry_has_the_stock_kinds) {
  source_registry r;
  add_stock_sources(r);
  EXPECT_THAT(r.names(), testing::ElementsAre("csv", "idx", "packed", "synthetic", "text"));
  EXPECT_EQ(r.find("jpeg"), nullptr);
}

TEST(data_idx, reads_fashion_mnist) {
  if (!std::filesystem::exists(fashion)) GTEST_SKIP() << fashion << " is not installed";
  const auto s = open_idx(fashion);
  EXPECT_EQ(s->example(), (shape{1, 28, 28}));
  EXPECT_EQ(s->classes(), 10);
  EXPECT_EQ(s->size(split::train), 60000);
  EXPECT_EQ(s->size(split::test), 10000);
  // The first labels as shown on the data set's page: ankle boot, T-shirt, T-shirt, dress, ...
  EXPECT_THAT(read_source<float>(*s, split::train, {0, 1, 2, 3}).label, testing::ElementsAre(9, 0, 0, 3));
  std::vector<std::int64_t> all(60000);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
  const auto b = read_source<float>(*s, split::train, all);
  double sum = 0, squares = 0;
  for (float v : b.data) sum += v, squares += static_cast<double>(v) * v;
  const auto n = static_cast<double>(b.data.size());
  EXPECT_NEAR(sum / n, 0.2860, 5e-5);  // the mean and deviation that tutorials use for normalisation
  EXPECT_NEAR(std::sqrt(squares / n - sum / n * sum / n), 0.3530, 5e-5);
  for (int k = 0; k < 10; ++k) EXPECT_EQ(std::count(b.label.begin(), b.label.end(), k), 6000);
}

TEST(data_idx, scales_subtracts_and_pads) {
  small_set f;
  options o;
  o.values["scale"] = 0.5;
  o.values["mean"] = 1.0;
  const auto s = open_idx(f.dir.path, o);
  EXPECT_EQ(s->example(), (shape{1, 2, 3}));
  EXPECT_EQ(s->classes(), 3);
  const auto b = read_source<double>(*s, split::train, {2, -1});
  EXPECT_THAT(b.data, testing::ElementsAre(5, 5.5, 6, 6.5, 7, 7.5, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(b.label, testing::ElementsAre(2, -1));
}

TEST(data_idx, f32_values_are_the_f64_values_rounded_once) {
  small_set f;
  test::write_bytes(f.dir.file("train-images-idx3-ubyte"), make_idx({6, 2, 128}, ramp(6 * 256)));
  test::write_bytes(f.dir.file("t10k-images-idx3-ubyte"), make_idx({3, 2, 128}, ramp(3 * 256)));
  options o;
  o.values["mean"] = 0.2860;
  const auto s = open_idx(f.dir.path, o);
  const auto a = read_source<double>(*s, split::train, {0});
  const auto b = read_source<float>(*s, split::train, {0});
  for (std::size_t i = 0; i < 256; ++i) {
    EXPECT_EQ(a.data[i], static_cast<double>(i) * (1.0 / 255.0) - 0.2860);
    EXPECT_EQ(b.data[i], static_cast<float>(a.data[i]));
  }
}

TEST(data_idx, reads_plain_gzip_and_named_files_alike) {
  small_set plain;
  temp_dir packed;
  options names;
  for (const char* base :
       {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"})
    test::write_bytes(packed.file(std::string(base) + ".gz"), gzip(test::read_bytes(plain.dir.file(base))));
  names.values["train_images"] = std::string("train-images-idx3-ubyte.gz");
  names.values["test_labels"] = plain.dir.file("t10k-labels-idx1-ubyte");
  const auto a = open_idx(plain.dir.path), b = open_idx(packed.path), c = open_idx(packed.path, names);
  for (const auto& other : {b, c}) {
    EXPECT_EQ(read_source<float>(*a, split::train, {5, 0}).data, read_source<float>(*other, split::train, {5, 0}).data);
    EXPECT_EQ(read_source<float>(*a, split::test, {2}).label, read_source<float>(*other, split::test, {2}).label);
  }
}

TEST(data_idx, finds_the_files_by_the_names_that_others_give_them) {
  small_set usual;
  const auto a = open_idx(usual.dir.path);
  const auto with_names = [&](const std::vector<const char*>& names, temp_dir& folder) {
    const char* usual_names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                                 "t10k-labels-idx1-ubyte"};
    for (std::size_t i = 0; i < 4; ++i) {
      const auto content = test::read_bytes(usual.dir.file(usual_names[i]));
      test::write_bytes(folder.file(names[i]), std::string(names[i]).ends_with(".gz") ? gzip(content) : content);
    }
  };
  for (const auto& names : std::vector<std::vector<const char*>>{
           {"train-images.idx3-ubyte", "train-labels.idx1-ubyte", "t10k-images.idx3-ubyte", "t10k-labels.idx1-ubyte"},
           {"train-images.idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "test-images-idx3-ubyte", "t10k-labels.idx1-ubyte"},
           {"emnist-letters-train-images-idx3-ubyte.gz", "emnist-letters-train-labels-idx1-ubyte.gz",
            "emnist-letters-test-images-idx3-ubyte.gz", "emnist-letters-test-labels-idx1-ubyte.gz"}}) {
    temp_dir folder;
    with_names(names, folder);
    const auto b = open_idx(folder.path);
    EXPECT_EQ(read_source<float>(*a, split::train, {5, 0}).data, read_source<float>(*b, split::train, {5, 0}).data) << names[0];
    EXPECT_EQ(read_source<float>(*a, split::test, {2}).label, read_source<float>(*b, split::test, {2}).label) << names[0];
  }
}

TEST(data_idx, refuses_a_folder_in_which_several_files_may_be_the_one) {
  small_set f;
  std::filesystem::rename(f.dir.file("train-images-idx3-ubyte"), f.dir.file("emnist-letters-train-images-idx3-ubyte"));
  test::write_bytes(f.dir.file("emnist-letters-train-images-idx3-ubyte.gz"), {});  // beside it: the same file
  EXPECT_EQ(open_idx(f.dir.path)->size(split::train), 6);
  test::write_bytes(f.dir.file("emnist-digits-train-images-idx3-ubyte"), {});
  const auto e = idx_error(f.dir.path);
  EXPECT_EQ(e.key, "train_images");
  EXPECT_THAT(e.what(), HasSubstr("several files have the name of the train images, emnist-digits-train-images-idx3-ubyte and "
                                  "emnist-letters-train-images-idx3-ubyte: set train_images"));
  options o;
  o.values["train_images"] = std::string("emnist-letters-train-images-idx3-ubyte");
  EXPECT_EQ(open_idx(f.dir.path, o)->size(split::train), 6);
}

TEST(data_idx, consecutive_gzip_members_are_one_file) {
  const auto whole = make_idx({4, 3}, ramp(12));
  auto joined = gzip({whole.begin(), whole.begin() + 9});
  const auto rest = gzip({whole.begin() + 9, whole.end()});
  joined.insert(joined.end(), rest.begin(), rest.end());
  const auto r = parse_idx(joined, 1, 4);
  ASSERT_TRUE(r.has_value()) << r.error().text;
  EXPECT_EQ(r->bytes, whole);
}

TEST(data_idx, ranks_two_and_four_are_vectors_and_coloured_images) {
  small_set f;
  test::write_bytes(f.dir.file("train-images-idx3-ubyte"), make_idx({6, 5}, ramp(30)));
  test::write_bytes(f.dir.file("t10k-images-idx3-ubyte"), make_idx({3, 5}, ramp(15)));
  EXPECT_EQ(open_idx(f.dir.path)->example(), shape{5});
  test::write_bytes(f.dir.file("train-images-idx3-ubyte"), make_idx({6, 3, 2, 2}, ramp(72)));
  test::write_bytes(f.dir.file("t10k-images-idx3-ubyte"), make_idx({3, 3, 2, 2}, ramp(36)));
  EXPECT_EQ(open_idx(f.dir.path)->example(), (shape{3, 2, 2}));
}

TEST(data_idx, reports_every_malformed_file_with_its_reason) {
  struct row {
    const char* file;
    bytes content;
    const char* message;
  };
  const char *images = "train-images-idx3-ubyte", *labels = "train-labels-idx1-ubyte", *tests = "t10k-images-idx3-ubyte";
  auto longer = make_idx({6, 2, 3}, ramp(38));
  auto float_type = make_idx({6, 2, 3}, ramp(36));
  float_type[2] = 0x0d;
  auto half = gzip(make_idx({6, 2, 3}, ramp(36)));
  half.resize(half.size() / 2);
  auto flipped = gzip(make_idx({6, 2, 3}, ramp(36)));
  flipped[flipped.size() - 6] ^= 1;  // its CRC
  auto after = gzip(make_idx({6, 2, 3}, ramp(36)));
  after.insert(after.end(), {'x', 'y', 'z'});
  const std::vector<row> rows = {
      {images, {}, "truncated: 0 bytes"},
      {images, {0, 0, 8}, "truncated: 3 bytes"},
      {images, {0x89, 'P', 'N', 'G', 0, 0, 0, 0}, "bad magic: an IDX file begins with two zero bytes"},
      {images, float_type, "bad magic: the element type is not 0x08"},
      {images, make_idx({6}, ramp(6)), "bad magic: the number of dimensions is not 2 to 4"},
      {images, {0, 0, 8, 200, 0, 0}, "bad magic: the number of dimensions is not 2 to 4"},
      {images, {0, 0, 8, 3, 0, 0, 0, 6, 0, 0}, "truncated: the header ends after 10 of 16 bytes"},
      {images, make_idx({6, 0, 3}, {}), "dimension 1 is 0"},
      {images, make_idx({6, 2, 3}, ramp(35)), "truncated: the header declares 36 elements, the file has 35"},
      {images, longer, "trailing garbage: 2 bytes after the last element"},
      {images, make_idx({0xffffffff, 0xffffffff, 0xffffffff}, ramp(36)), "invalid header: more than 2^36 elements"},
      {images, make_idx({0xffffffff, 2, 3}, ramp(36)), "truncated: the header declares 25769803770 elements"},
      {images, gzip(make_idx({0xffffffff, 2, 3}, ramp(36))), "elements cannot come out of"},
      {images, gzip(make_idx({7, 2, 3}, ramp(36))), "truncated: the header declares 42 elements, the file has 36"},
      {images, gzip(longer), "trailing garbage"},
      {images, half, "truncated: the gzip stream ends after"},
      {images, flipped, "damaged gzip stream"},
      {images, after, "trailing garbage: 3 bytes after the gzip stream"},
      {labels, make_idx({5}, ramp(5, 3)), "5 labels, but "},
      {labels, make_idx({6}, {0, 1, 2, 0, 255, 1}),
       "the label at index 4 is larger than 3, but no example has label 3; set classes if that is meant"},
      {labels, make_idx({6, 1}, ramp(6)), "bad magic: the number of dimensions is not 1"},
      {tests, make_idx({3, 3, 2}, ramp(18)), "examples are 3x2, but those of "},
  };
  for (const auto& r : rows) {
    small_set f;
    test::write_bytes(f.dir.file(r.file), r.content);
    const auto e = idx_error(f.dir.path);
    EXPECT_EQ(e.key, "path");
    EXPECT_THAT(e.what(), HasSubstr(f.dir.file(r.file) + ": ")) << r.message;
    EXPECT_THAT(e.what(), HasSubstr(r.message));
  }
}

TEST(data_idx, errors_quote_no_content_of_the_file) {
  for (const bytes& content : {bytes{'-', '-', '-', '-', '-', 'B'}, bytes{0, 0, 'Q', 3, 1, 2}, bytes{0, 0, 8, 'Q', 1, 2}}) {
    small_set f;
    test::write_bytes(f.dir.file("train-images-idx3-ubyte"), content);
    const std::string e = idx_error(f.dir.path).what();
    for (const char* shown : {"0x2d", "--", "0x51", "81"}) EXPECT_EQ(e.find(shown, f.dir.path.size()), std::string::npos) << e;
  }
}

TEST(data_idx, reports_missing_and_irregular_files) {
  small_set f;
  std::filesystem::remove(f.dir.file("t10k-labels-idx1-ubyte"));
  EXPECT_THAT(idx_error(f.dir.path).what(), HasSubstr("t10k-labels-idx1-ubyte.gz: cannot open: No such file"));
  options o;
  o.values["test_labels"] = std::string("mine");
  EXPECT_EQ(idx_error(f.dir.path, o).key, "test_labels");
  std::filesystem::create_directory(f.dir.file("mine"));
  EXPECT_THAT(idx_error(f.dir.path, o).what(), HasSubstr("mine: not a regular file"));
  o.values["test_labels"] = std::string("/dev/zero");
  EXPECT_THAT(idx_error(f.dir.path, o).what(), HasSubstr("/dev/zero: not a regular file"));
  o.values["test_labels"] = std::string("a\0b", 3);
  EXPECT_THAT(idx_error(f.dir.path, o).what(), HasSubstr("NUL"));
}

TEST(data_idx, rejects_labels_beyond_the_classes) {
  small_set f;
  options o;
  o.values["classes"] = std::int64_t{2};
  EXPECT_THAT(idx_error(f.dir.path, o).what(), HasSubstr("the label at index 2 is not below classes = 2"));
  o.values["classes"] = std::int64_t{5};
  EXPECT_EQ(open_idx(f.dir.path, o)->classes(), 5);
  test::write_bytes(f.dir.file("t10k-labels-idx1-ubyte"), make_idx({3}, {0, 1, 3}));
  EXPECT_THAT(idx_error(f.dir.path).what(), HasSubstr("t10k-labels-idx1-ubyte: the label at index 2 is not below classes = 3"));
}

TEST(data_idx, the_ignored_label_is_no_class) {
  small_set f;
  test::write_bytes(f.dir.file("train-labels-idx1-ubyte"), make_idx({6}, {0, 255, 2, 1, 255, 0}));
  options o;
  o.values["ignore_label"] = std::int64_t{255};
  const auto s = open_idx(f.dir.path, o);
  EXPECT_EQ(s->classes(), 3);
  EXPECT_THAT(read_source<float>(*s, split::train, {0, 1, 2, 3, 4, 5}).label, testing::ElementsAre(0, -1, 2, 1, -1, 0));
  test::write_bytes(f.dir.file("train-labels-idx1-ubyte"), make_idx({6}, {255, 255, 255, 255, 255, 255}));
  EXPECT_THAT(idx_error(f.dir.path, o).what(), HasSubstr("every label is that of ignore_label"));
}

TEST(data_idx, fuzzed_files_are_read_or_rejected) {
  const std::vector<bytes> seeds = {make_idx({6, 2, 3}, ramp(36)), gzip(make_idx({6, 2, 3}, ramp(36))), make_idx({9}, ramp(9, 3))};
  counter_rng rng(11);
  std::uint64_t sound = 0;
  const auto inputs = test::fuzz_inputs(100000);
  for (std::uint64_t i = 0; i < inputs; ++i) {
    auto b = seeds[rng.draw_below(seeds.size())];
    for (auto flips = rng.draw_below(4) + 1; flips > 0; --flips) {
      switch (rng.draw_below(4)) {
        case 0: b.resize(rng.draw_below(b.size() + 8)); break;
        case 1: b.insert(b.begin() + static_cast<std::ptrdiff_t>(rng.draw_below(b.size() + 1)), 0xff); break;
        default:
          if (!b.empty()) b[rng.draw_below(b.size())] = static_cast<std::uint8_t>(rng.next());
      }
    }
    const auto r = parse_idx(std::move(b), 1, 4);
    if (const auto* a = r ? &*r : nullptr) {
      ++sound;
      std::int64_t n = 1;
      for (auto e : a->extents) n *= e;
      ASSERT_EQ(a->offset + static_cast<std::size_t>(n), a->bytes.size()) << "input " << i;
    }
  }
  EXPECT_GT(sound, 0u);
  EXPECT_LT(sound, inputs);
}

options synthetic_options(std::vector<std::int64_t> dims, std::int64_t classes, double noise) {
  options o;
  o.values["shape"] = std::move(dims);
  o.values["classes"] = classes;
  o.values["noise"] = noise;
  return o;
}

TEST(data_synthetic, is_a_function_of_the_seed_and_the_index) {
  const auto a = open_source("synthetic", {}, 1), same = open_source("synthetic", {}, 1), other = open_source("synthetic", {}, 2);
  EXPECT_EQ(a->example(), (shape{1, 28, 28}));
  EXPECT_EQ(a->size(split::train), 10000);
  EXPECT_EQ(a->size(split::test), 1000);
  const auto x = read_source<float>(*a, split::train, {3, 8, -1}), y = read_source<float>(*same, split::train, {8, -1, 3});
  EXPECT_TRUE(std::equal(x.data.begin(), x.data.begin() + 784, y.data.begin() + 2 * 784));
  EXPECT_EQ(x.label[0], y.label[2]);
  EXPECT_EQ(x.label[2], -1);
  for (std::size_t i = 2 * 784; i < 3 * 784; ++i) EXPECT_EQ(x.data[i], 0.0f);
  EXPECT_NE(read_source<float>(*other, split::train, {3}).data, read_source<float>(*a, split::train, {3}).data);
  EXPECT_NE(read_source<float>(*a, split::test, {3}).data, read_source<float>(*a, split::train, {3}).data);
}

TEST(data_synthetic, values_are_fixed) {
  const auto s = open_source("synthetic", synthetic_options({2, 3}, 4, 0.25), 1);
  const auto b = read_source<double>(*s, split::train, {0, 1});
  EXPECT_THAT(b.label, testing::ElementsAre(3, 0));
  EXPECT_NEAR(b.data[0], 0.38637408298604625, 1e-12);
  EXPECT_NEAR(b.data[11], -0.18771272780848483, 1e-12);
}

TEST(data_synthetic, f32_values_are_the_f64_values_rounded_once) {
  const auto s = open_source("synthetic", {}, 5);
  const auto a = read_source<double>(*s, split::train, {0, 77});
  const auto b = read_source<float>(*s, split::train, {0, 77});
  for (std::size_t i = 0; i < a.data.size(); ++i) EXPECT_EQ(b.data[i], static_cast<float>(a.data[i]));
}

TEST(data_synthetic, classes_are_balanced_and_separable_by_class_means) {
  for (const auto& dims : std::vector<std::vector<std::int64_t>>{{1, 28, 28}, {3, 32, 32}, {50}, {2, 2, 3, 5, 7}}) {
    const auto s = open_source("synthetic", synthetic_options(dims, 10, 0.5), 1);
    const auto n = static_cast<std::size_t>(s->example().count());
    std::vector<std::int64_t> all(2000);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
    const auto train = read_source<float>(*s, split::train, all);
    std::vector<std::vector<double>> mean(10, std::vector<double>(n));
    std::vector<double> count(10);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto k = static_cast<std::size_t>(train.label[i]);
      count[k] += 1;
      for (std::size_t j = 0; j < n; ++j) mean[k][j] += train.data[i * n + j];
    }
    for (std::size_t k = 0; k < 10; ++k) EXPECT_NEAR(count[k], 200, 60);
    all.resize(500);
    const auto tests = read_source<float>(*s, split::test, all);
    int right = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      double best = 1e300;
      std::int32_t answer = -1;
      for (std::size_t k = 0; k < 10; ++k) {
        double d = 0;
        for (std::size_t j = 0; j < n; ++j) {
          const double delta = tests.data[i * n + j] - mean[k][j] / count[k];
          d += delta * delta;
        }
        if (d < best) best = d, answer = static_cast<std::int32_t>(k);
      }
      right += answer == tests.label[i];
    }
    EXPECT_GT(right, 450) << s->example().rank() << " axes";
  }
}

TEST(data_synthetic, rejects_impossible_shapes) {
  EXPECT_THAT(source_error_of("synthetic", synthetic_options({}, 2, 0)).what(), HasSubstr("shape has 0 extents"));
  EXPECT_THAT(source_error_of("synthetic", synthetic_options({1, 1, 1, 1, 1, 1}, 2, 0)).what(), HasSubstr("shape has 6 extents"));
  EXPECT_THAT(source_error_of("synthetic", synthetic_options({3, -1}, 2, 0)).what(), HasSubstr("extent of -1"));
  EXPECT_THAT(source_error_of("synthetic", synthetic_options({1 << 20, 1 << 20, 1 << 30}, 2, 0)).what(),
              HasSubstr("more than 2^31"));
  EXPECT_EQ(source_error_of("synthetic", synthetic_options({3}, 0, 0)).key, "classes");
}

}  // namespace
}  // namespace troupe
