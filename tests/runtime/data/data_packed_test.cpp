// Packed data: a source round-trips bit for bit, and any other file is rejected or fails with its
// name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "runtime/checksum/crc32c.hpp"
#include "runtime/data/packed.hpp"
#include "runtime/data/random.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe {
namespace {

using test::temp_dir;
using testing::HasSubstr;
using testing::StartsWith;
using bytes = std::vector<std::uint8_t>;
using keys = std::map<std::string, option_value, std::less<>>;

std::shared_ptr<const source> open_packed(const std::string& kind, keys k) {
  source_registry r;
  add_stock_sources(r);
  const auto* t = r.find(kind);
  return t->open(check_options(options{std::move(k)}, t->specs), 3);
}

// Raw bytes of a batch.
template <class T>
std::pair<bytes, std::vector<std::int32_t>> read_packed(const source& s, split part, const std::vector<std::int64_t>& which) {
  shape data{static_cast<std::int64_t>(which.size())}, label = data;
  for (int i = 0; i < s.example().rank(); ++i) data.push_back(s.example()[i]);
  for (int i = 0; i < s.label().rank(); ++i) label.push_back(s.label()[i]);
  std::vector<T> values(static_cast<std::size_t>(data.count()), T{77});
  std::vector<std::int32_t> labels(static_cast<std::size_t>(label.count()), 77);
  auto d = tensor::borrow(values.data(), data, dtype_of<T>);
  auto l = tensor::borrow(labels.data(), label, dtype::i32);
  s.read(part, which, d, l);
  bytes raw(values.size() * sizeof(T));
  std::memcpy(raw.data(), values.data(), raw.size());
  return {raw, labels};
}

// Bytes with one scale per channel, like an image folder.
class byte_source final : public source {
 public:
  explicit byte_source(std::int64_t train = 700, std::int64_t test = 35, std::vector<std::string> names = {})
      : sizes_{train, test}, names_(std::move(names)) {}
  shape example() const override { return {3, 5, 7}; }
  std::int64_t classes() const override { return 4; }
  std::vector<std::string> class_names() const override { return names_; }
  std::int64_t size(split s) const override { return sizes_[s == split::train ? 0 : 1]; }
  std::optional<byte_scaling> bytes() const override { return byte_scaling{{1.0 / 255, 0.25, 2}, {0.5, 0.1, -3}}; }
  void read_bytes(split s, const std::vector<std::int64_t>& indices, std::uint8_t* out) const override {
    for (auto i : indices)
      for (std::int64_t k = 0; k < 105; ++k) *out++ = i < 0 ? 0 : value(s, i, k);
  }
  void read(split s, const std::vector<std::int64_t>& indices, tensor& data, tensor& label) const override {
    const auto scaling = *bytes();
    auto* labels = label.mutable_data<std::int32_t>();
    for (std::size_t n = 0; n < indices.size(); ++n) {
      const auto i = indices[n];
      labels[n] = i < 0 ? -1 : static_cast<std::int32_t>(i % 4);
      for (std::size_t k = 0; k < 105; ++k) {
        const double v = i < 0 ? 0 : value(s, i, static_cast<std::int64_t>(k)) * scaling.scale[k / 35] - scaling.mean[k / 35];
        if (data.type() == dtype::f64)
          data.mutable_data<double>()[n * 105 + k] = v;
        else
          data.mutable_data<float>()[n * 105 + k] = static_cast<float>(v);
      }
    }
  }

 private:
  static std::uint8_t value(split s, std::int64_t i, std::int64_t k) {
    return static_cast<std::uint8_t>(hash_at(s == split::train ? 1 : 2, static_cast<std::uint64_t>(i * 105 + k)));
  }
  std::array<std::int64_t, 2> sizes_;
  std::vector<std::string> names_;
};

packed_header packed(const source& s, const std::string& path) {
  const auto r = pack(s, path);
  if (!r) ADD_FAILURE() << r.error().text;
  EXPECT_EQ(static_cast<std::uintmax_t>(r->bytes), std::filesystem::file_size(path));
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
  return r->header;
}

template <class T>
void expect_same(const source& want, const source& got) {
  ASSERT_EQ(got.example(), want.example());
  ASSERT_EQ(got.label(), want.label());
  ASSERT_EQ(got.classes(), want.classes());
  ASSERT_EQ(got.ids(), want.ids());
  ASSERT_EQ(got.symbols(), want.symbols());
  ASSERT_EQ(got.class_names(), want.class_names());
  for (auto part : {split::train, split::test}) {
    ASSERT_EQ(got.size(part), want.size(part));
    counter_rng rng(4);
    for (int round = 0; round < 30 && want.size(part) > 0; ++round) {
      std::vector<std::int64_t> which{-1};
      for (int k = 0; k < 9; ++k)
        which.push_back(static_cast<std::int64_t>(rng.draw_below(static_cast<std::uint64_t>(want.size(part)))));
      ASSERT_EQ(read_packed<T>(got, part, which), read_packed<T>(want, part, which));
    }
    if (want.size(part) == 0) continue;
    ASSERT_EQ(read_packed<T>(got, part, {want.size(part) - 1}), read_packed<T>(want, part, {want.size(part) - 1}));
  }
}

TEST(data_packed, byte_values_round_trip_bit_for_bit_in_both_precisions) {
  temp_dir dir;
  const byte_source s;
  const auto h = packed(s, dir.file("p"));
  EXPECT_EQ(h.type, dtype::u8);
  const auto got = open_packed("packed", {{"path", dir.file("p")}});
  expect_same<float>(s, *got);
  expect_same<double>(s, *got);
  // A packed file is a source like any other: packing it again gives the same file.
  packed(*got, dir.file("q"));
  EXPECT_EQ(test::read_bytes(dir.file("p")), test::read_bytes(dir.file("q")));
}

TEST(data_packed, values_and_ids_round_trip) {
  temp_dir dir;
  const auto synthetic = open_packed(
      "synthetic",
      {{"shape", std::vector<std::int64_t>{2, 40, 40}}, {"examples", std::int64_t{333}}, {"test_examples", std::int64_t{21}}});
  EXPECT_EQ(packed(*synthetic, dir.file("values")).type, dtype::f32);
  expect_same<float>(*synthetic, *open_packed("packed", {{"path", dir.file("values")}}));

  std::string text;
  for (int i = 0; i < 5000; ++i) text += i % 11 == 0 ? "\xc3\xa9" : std::string(1, static_cast<char>('a' + i * i % 17));
  test::write_bytes(dir.file("t"), {text.begin(), text.end()});
  const auto ids = open_packed("text", {{"path", dir.file("t")}, {"sequence", std::int64_t{13}}});
  EXPECT_EQ(packed(*ids, dir.file("ids")).type, dtype::i32);
  expect_same<std::int32_t>(*ids, *open_packed("packed", {{"path", dir.file("ids")}}));

  test::write_bytes(dir.file("c"), {'1', ',', '2', '\n', '3', ',', '4', '\n'});
  const auto bare = open_packed("csv", {{"path", dir.file("c")}, {"header", false}});
  packed(*bare, dir.file("bare"));
  const auto got = open_packed("packed", {{"path", dir.file("bare")}});
  EXPECT_EQ(got->classes(), 0);
  EXPECT_EQ(read_packed<float>(*got, split::train, {1, 0}).first, read_packed<float>(*bare, split::train, {1, 0}).first);
}

TEST(data_packed, targets_round_trip_as_floats) {
  temp_dir dir;
  const std::string rows = "1,0.5,-3\n2,0.25,1e9\n3,4,5\n";
  test::write_bytes(dir.file("c"), {rows.begin(), rows.end()});
  const auto csv =
      open_packed("csv", {{"path", dir.file("c")}, {"header", false}, {"targets", std::vector<std::string>{"1", "2"}}});
  const auto h = packed(*csv, dir.file("p"));
  EXPECT_TRUE(h.targets);
  const auto got = open_packed("packed", {{"path", dir.file("p")}});
  EXPECT_TRUE(got->targets());
  EXPECT_EQ(got->label(), shape{2});
  const auto read = [&]<class T>(const source& s, T) {
    std::vector<T> x(3), y(6, T{99});
    auto data = tensor::borrow(x.data(), shape{3, 1}, dtype_of<T>), label = tensor::borrow(y.data(), shape{3, 2}, dtype_of<T>);
    s.read(split::train, {2, -1, 0}, data, label);
    x.insert(x.end(), y.begin(), y.end());
    return x;
  };
  EXPECT_EQ(read(*got, 0.0F), (std::vector<float>{3, 0, 1, 4, 5, 0, 0, 0.5, -3}));
  EXPECT_EQ(read(*got, 0.0), read(*csv, 0.0));
}

std::string open_error(const std::string& path) {
  try {
    open_packed("packed", {{"path", path}});
  } catch (const option_error& e) {
    const std::string what = e.what();
    return e.key + ": " + what.substr(what.rfind('/') + 1);
  }
  return "no error";
}

TEST(data_packed, rejects_other_files_at_opening) {
  temp_dir dir;
  packed(byte_source(), dir.file("p"));
  const auto sound = test::read_bytes(dir.file("p"));
  const auto error = [&](const bytes& b) {
    test::write_bytes(dir.file("x"), b);
    return open_error(dir.file("x"));
  };
  EXPECT_EQ(error(sound), "no error");
  EXPECT_EQ(error({}), "path: x: an empty file");
  EXPECT_EQ(error(bytes(100, 'x')), "path: x: not packed data: it does not begin with TROUPEPK");
  EXPECT_THAT(open_error(dir.file("none")), HasSubstr("none: cannot open: No such file"));
  EXPECT_EQ(open_error(dir.path), "path: " + dir.path.substr(dir.path.rfind('/') + 1) + ": not a regular file");
  auto b = sound;
  b[8] = 5;
  EXPECT_EQ(error(b), "path: x: packed data of version 5, this program reads versions 1 to 4");
  b = sound;
  b[40] ^= 1;
  EXPECT_EQ(error(b), "path: x: its header is damaged (CRC32C)");
  b = sound;
  b.resize(30);
  EXPECT_EQ(error(b), "path: x: truncated in its header");
  b = sound;
  b.pop_back();
  EXPECT_THAT(error(b),
              HasSubstr("its header declares 700 + 35 examples, for which " + std::to_string(b.size()) + " bytes are too few"));
  b = sound;
  b.push_back(0);
  EXPECT_THAT(error(b), HasSubstr("bytes are too many"));
}

TEST(data_packed, only_reads_of_a_damaged_block_fail) {
  temp_dir dir;
  const byte_source s(9000, 35);  // several blocks
  const auto h = packed(s, dir.file("p"));
  ASSERT_GT(h.blocks(split::train), 3);
  auto b = test::read_bytes(dir.file("p"));
  b[static_cast<std::size_t>(packed_alignment + h.block_bytes() + 17)] ^= 4;
  test::write_bytes(dir.file("p"), b);
  const auto got = open_packed("packed", {{"path", dir.file("p")}});
  read_packed<float>(*got, split::train, {0, h.block_examples - 1, 2 * h.block_examples, 8999});
  read_packed<float>(*got, split::test, {34});
  for (int again = 0; again < 2; ++again) try {
      read_packed<float>(*got, split::train, {0, h.block_examples + 3});
      FAIL() << "it read a damaged block";
    } catch (const std::runtime_error& e) {
      EXPECT_EQ(std::string(e.what()), dir.file("p") + ": training examples " + std::to_string(h.block_examples) + " to " +
                                           std::to_string(2 * h.block_examples - 1) + " are damaged: wrong CRC32C");
    }
}

// A loss layer would use a label beyond the classes as an index, even if its checksum is right.
TEST(data_packed, rejects_labels_beyond_the_classes_with_a_valid_checksum) {
  temp_dir dir;
  const auto h = packed(byte_source(20, 5), dir.file("p"));
  for (std::int32_t wrong : {4, -2, 1 << 30}) {
    auto b = test::read_bytes(dir.file("p"));
    auto* block = b.data() + packed_alignment;
    std::memcpy(block + h.block_examples * h.value_bytes() + 3 * 4, &wrong, 4);
    const auto n = static_cast<std::size_t>(h.checked_bytes());
    const auto sum = crc32c(0, block, n);
    std::memcpy(block + n, &sum, 4);
    const auto r = open_packed(bytes_in_memory(b), "x");
    EXPECT_THROW(read_packed<float>(**r, split::train, {0}), std::runtime_error);
    EXPECT_NO_THROW(read_packed<float>(**r, split::test, {0}));
  }
}

TEST(data_packed, keeps_labels_that_do_not_count) {
  class some final : public source {
   public:
    shape example() const override { return {1}; }
    std::int64_t classes() const override { return 2; }
    std::int64_t size(split) const override { return 4; }
    void read(split, const std::vector<std::int64_t>& indices, tensor& data, tensor& label) const override {
      for (std::size_t k = 0; k < indices.size(); ++k) {
        data.mutable_data<float>()[k] = 0;
        label.mutable_data<std::int32_t>()[k] = indices[k] % 2 == 1 ? -1 : static_cast<std::int32_t>(indices[k] / 2);
      }
    }
  };
  temp_dir dir;
  ASSERT_TRUE(pack(some(), dir.file("p")));
  options o;
  o.values["path"] = dir.file("p");
  source_registry r;
  add_stock_sources(r);
  const auto* type = r.find("packed");
  const auto s = type->open(check_options(o, type->specs), 1);
  EXPECT_THAT(read_packed<float>(*s, split::train, {0, 1, 2, 3}).second, testing::ElementsAre(0, -1, 1, -1));
}

TEST(data_packed, rejects_an_unsupported_source_before_writing) {
  class odd final : public source {
   public:
    shape example() const override { return {4}; }
    std::int64_t classes() const override { return 2; }
    std::vector<std::string> symbols() const override { return {"a", "b", "c"}; }
    std::int64_t size(split) const override { return 10; }
    void read(split, const std::vector<std::int64_t>&, tensor&, tensor&) const override {}
  };
  temp_dir dir;
  EXPECT_THAT(pack(odd(), dir.file("p")).error().text,
              HasSubstr("/p: this source cannot be packed: its header has an invalid number of symbols"));
  EXPECT_TRUE(std::filesystem::is_empty(dir.path));
}

TEST(data_packed, a_failed_pack_leaves_no_file) {
  temp_dir dir;
  const auto r = pack(byte_source(), dir.file("no/such/folder"));
  EXPECT_THAT(r.error().text, HasSubstr("no/such/folder: cannot create: No such file"));
  class failing final : public source {
   public:
    shape example() const override { return {4}; }
    std::int64_t classes() const override { return 2; }
    std::int64_t size(split) const override { return 10; }
    void read(split, const std::vector<std::int64_t>&, tensor&, tensor&) const override { throw std::runtime_error("7.png: gone"); }
  };
  EXPECT_EQ(pack(failing(), dir.file("p")).error().text, dir.file("p") + ": 7.png: gone");
  EXPECT_TRUE(std::filesystem::is_empty(dir.path));
}

// Mutated files, half of them with a valid checksum of the header. Each is rejected, is read
// without an access outside of it (sanitizers check that too), or fails with its name.
TEST(data_packed, fuzz) {
  temp_dir dir;
  packed(byte_source(30, 7, {"a", "b", "c", "d"}), dir.file("u8"));
  packed(
      *open_packed("synthetic",
                   {{"shape", std::vector<std::int64_t>{6}}, {"examples", std::int64_t{19}}, {"test_examples", std::int64_t{2}}}),
      dir.file("f32"));
  const bytes sound[] = {test::read_bytes(dir.file("u8")), test::read_bytes(dir.file("f32"))};
  counter_rng rng(9);
  const auto inputs = test::fuzz_inputs(100'000);
  std::uint64_t opened = 0, damaged = 0;
  for (std::uint64_t k = 0; k < inputs; ++k) {
    auto b = sound[k % 2];
    std::uint32_t header = 0;
    std::memcpy(&header, b.data() + 12, 4);
    for (auto changes = 1 + rng.draw_below(4); changes > 0; --changes) {
      const bool in_header = rng.draw_below(4) != 0;
      const auto at = in_header ? rng.draw_below(header) : rng.draw_below(b.size());
      switch (rng.draw_below(4)) {
        case 0: b[at] = static_cast<std::uint8_t>(rng.next()); break;
        case 1: b[at] ^= static_cast<std::uint8_t>(1u << rng.draw_below(8)); break;
        case 2:
          std::fill_n(b.begin() + static_cast<std::ptrdiff_t>(at), std::min<std::size_t>(8, b.size() - at), k % 3 == 0 ? 0xff : 0);
          break;
        default: b[at] = static_cast<std::uint8_t>(b[at] + 1);
      }
    }
    if (rng.draw_below(8) == 0) b.resize(rng.draw_below(b.size() + 1));
    if (rng.draw_below(8) == 0) b.resize(b.size() + rng.draw_below(200));
    std::uint32_t length = 0;
    if (b.size() >= 16) std::memcpy(&length, b.data() + 12, 4);
    if (k % 4 < 2 && length >= 20 && length <= b.size()) {
      const auto sum = crc32c(0, b.data(), length - 4);
      std::memcpy(b.data() + length - 4, &sum, 4);
    }
    const auto r = open_packed(bytes_in_memory(b), "x");
    if (!r) {
      ASSERT_THAT(r.error().text, StartsWith("x: "));
      continue;
    }
    ++opened;
    const auto& s = **r;
    if (s.ids() || s.example().count() > 10000) continue;
    for (auto part : {split::train, split::test}) {
      const auto n = s.size(part);
      for (auto i : {std::int64_t{0}, n / 2, n - 1}) {
        if (n == 0) continue;
        try {
          read_packed<float>(s, part, {i});
        } catch (const std::runtime_error& e) {
          ++damaged;
          ASSERT_THAT(e.what(), StartsWith("x: "));
          ASSERT_THAT(e.what(), ::testing::Not(HasSubstr("beyond its end")));
        }
      }
    }
  }
  EXPECT_GT(opened, inputs / 100);
  EXPECT_GT(damaged, inputs / 100);
}

}  // namespace
}  // namespace troupe
