// The lmdb source: records as Caffe writes them, with bytes, floats and encoded images; databases
// that are no data for a job; damaged records.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lmdb.h>

#include <cstring>
#include <filesystem>
#include <random>
#include <set>

#include "runtime/node/formats/datum.hpp"
#include "runtime/node/formats/formats.hpp"
#include "runtime/node/images/image_list.hpp"
#include "tests/error_text.hpp"
#include "tests/node/image_files.hpp"

namespace troupe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using lmdb_options = std::map<std::string, option_value, std::less<>>;

// A Datum in wire format, written without the code under test.
class written_datum {
 public:
  written_datum& number(int field, std::uint64_t v) {
    tag(field, 0);
    varint(v);
    return *this;
  }
  written_datum& bytes(int field, const std::string& v) {
    tag(field, 2);
    varint(v.size());
    text_ += v;
    return *this;
  }
  written_datum& real(int field, float v) {
    tag(field, 5);
    text_.append(reinterpret_cast<const char*>(&v), 4);
    return *this;
  }
  operator std::string() const { return text_; }

 private:
  void tag(int field, int wire) { varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire)); }
  void varint(std::uint64_t v) {
    for (; v >= 128; v >>= 7) text_ += static_cast<char>(v | 128);
    text_ += static_cast<char>(v);
  }
  std::string text_;
};

std::string record(std::uint64_t channels, std::uint64_t height, std::uint64_t width, const std::string& data,
                   std::uint64_t label) {
  return written_datum().number(1, channels).number(2, height).number(3, width).bytes(4, data).number(5, label);
}

std::string encoded_record(const std::vector<std::uint8_t>& image, std::uint64_t label) {
  return written_datum().bytes(4, {image.begin(), image.end()}).number(5, label).number(7, 1);
}

class lmdb_files : public testing::Test {
 protected:
  // A database with these records, and keys as Caffe's: their numbers with eight digits.
  std::string write(const std::string& name, const std::vector<std::string>& records) {
    auto folder = dir_.file(name);
    std::filesystem::create_directory(folder);
    MDB_env* env = nullptr;
    MDB_txn* txn = nullptr;
    MDB_dbi db = 0;
    EXPECT_EQ(mdb_env_create(&env), 0);
    EXPECT_EQ(mdb_env_set_mapsize(env, 64 << 20), 0);
    EXPECT_EQ(mdb_env_open(env, folder.c_str(), 0, 0644), 0);
    EXPECT_EQ(mdb_txn_begin(env, nullptr, 0, &txn), 0);
    EXPECT_EQ(mdb_dbi_open(txn, nullptr, 0, &db), 0);
    for (std::size_t i = records.size(); i-- > 0;) {
      char text[32];
      std::snprintf(text, sizeof text, "%08zu", i);
      MDB_val key{8, text}, value{records[i].size(), const_cast<char*>(records[i].data())};
      EXPECT_EQ(mdb_put(txn, db, &key, &value, 0), 0);
    }
    EXPECT_EQ(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
    return folder;
  }
  std::shared_ptr<const source> open(lmdb_options k) {
    const auto t = lmdb_source_type();
    return t.open(check_options(options{std::move(k)}, t.specs), 1);
  }
  std::string why(lmdb_options k) {
    try {
      open(std::move(k));
    } catch (const option_error& e) {
      return e.what();
    }
    return "no error";
  }
  struct batch {
    std::vector<float> data;
    std::vector<std::int32_t> labels;
  };
  static batch read(const source& s, split part, const std::vector<std::int64_t>& indices) {
    const auto n = static_cast<std::int64_t>(indices.size()), each = s.example().count();
    batch b{std::vector<float>(static_cast<std::size_t>(n * each), 99), std::vector<std::int32_t>(indices.size(), 99)};
    auto data = tensor::borrow(b.data.data(), shape{n, each}, dtype::f32);
    auto label = tensor::borrow(b.labels.data(), shape{n}, dtype::i32);
    s.read(part, indices, data, label);
    return b;
  }
  static std::string why_not_read(const source& s, std::int64_t i) {
    try {
      read(s, split::train, {i});
    } catch (const std::runtime_error& e) {
      return e.what();
    }
    return "no error";
  }
  test::temp_dir dir_;
};

TEST_F(lmdb_files, have_bytes_in_planes_in_the_order_of_keys) {
  const auto path = write("db", {record(2, 1, 2, "\x01\x02\x03\xff", 4), record(2, 1, 2, "abcd", 0)});
  const auto s = open({{"path", path}, {"scale", std::vector<double>{0.5}}, {"mean", std::vector<double>{1, 2}}});
  EXPECT_EQ(s->example(), (shape{2, 1, 2}));
  EXPECT_EQ(s->classes(), 5);
  const auto b = read(*s, split::train, {1, -1, 0});
  EXPECT_THAT(b.data, ElementsAre(47.5, 48, 47.5, 48, 0, 0, 0, 0, -0.5, 0, -0.5, 125.5));
  EXPECT_THAT(b.labels, ElementsAre(0, -1, 4));
  ASSERT_TRUE(s->bytes());
  EXPECT_THAT(s->bytes()->mean, ElementsAre(1, 2));
  EXPECT_THAT(s->bytes()->scale, ElementsAre(0.5, 0.5));
  std::string raw(8, 'x');
  s->read_bytes(split::train, {-1, 1}, reinterpret_cast<std::uint8_t*>(raw.data()));
  EXPECT_EQ(raw, std::string(4, '\0') + "abcd");
}

TEST_F(lmdb_files, have_floats_packed_or_not) {
  const std::vector<float> v{0.25f, -3};
  const std::string packed(reinterpret_cast<const char*>(v.data()), 8);
  const auto head = [] { return written_datum().number(1, 1).number(2, 1).number(3, 2); };
  const auto path = write("db", {head().real(6, v[0]).real(6, v[1]), head().bytes(6, packed).number(5, 1)});
  const auto s = open({{"path", path}, {"scale", std::vector<double>{2}}});
  EXPECT_EQ(s->bytes(), std::nullopt);
  EXPECT_THAT(read(*s, split::train, {0, 1}).data, ElementsAre(0.5, -6, 0.5, -6));
}

TEST_F(lmdb_files, have_encoded_images_as_blue_green_red) {
  std::vector<std::uint8_t> pixels{1, 2, 3, 4, 5, 6};  // two pixels, red green blue
  const auto png = image_test::png_of(2, 1, pixels);
  const auto encoded = encoded_record(png, 1);
  const auto path = write("db", {encoded, encoded});
  const auto s = open({{"path", path}});
  EXPECT_EQ(s->example(), (shape{3, 1, 2}));
  EXPECT_TRUE(s->decodes());
  EXPECT_EQ(s->picture_order(), channel_order::bgr);
  EXPECT_THAT(read(*s, split::train, {1}).data, ElementsAre(3, 6, 2, 5, 1, 4));
  const auto rgb = open({{"path", path}, {"channel_order", std::string("rgb")}});
  EXPECT_EQ(rgb->picture_order(), channel_order::rgb);
  EXPECT_THAT(read(*rgb, split::train, {1}).data, ElementsAre(1, 4, 2, 5, 3, 6));
}

TEST_F(lmdb_files, have_the_numbers_of_their_own_pictures) {
  const auto pixels = image_test::picture(3, 2, 3, 5);
  const auto png = image_test::png_of(3, 2, pixels);
  test::write_bytes(dir_.file("a.png"), png);
  std::string planes;  // as convert_imageset writes them: blue, green, red
  for (const std::size_t c : {2, 1, 0})
    for (std::size_t k = 0; k < 6; ++k) planes += static_cast<char>(pixels[3 * k + c]);
  const lmdb_options mean{{"mean", std::vector<double>{104, 117, 123}}};
  for (const auto& text : {encoded_record(png, 0), record(3, 2, 3, planes, 0)}) {
    auto k = mean;
    k["path"] = write("db" + std::to_string(text.size()), {text});
    const auto s = open(std::move(k));
    const auto list = open_image_list({dir_.file("a.png")}, s->example(), *s->bytes(), s->picture_order(), false);
    ASSERT_EQ(test::error_text(list), "");
    EXPECT_EQ(read(**list, split::test, {0}).data, read(*s, split::train, {0}).data);
  }
}

TEST_F(lmdb_files, keep_grey_images_grey_unless_channels_says_otherwise) {
  const auto grey = encoded_record(image_test::png_of(2, 1, {9, 7}, {PNG_COLOR_TYPE_GRAY}), 0);
  const auto colour = encoded_record(image_test::png_of(2, 1, {1, 2, 3, 4, 5, 6}), 0);
  const auto path = write("db", {grey, colour}), other = write("other", {colour, grey});
  const auto s = open({{"path", path}});
  EXPECT_EQ(s->example(), (shape{1, 1, 2}));
  EXPECT_THAT(read(*s, split::train, {0}).data, ElementsAre(9, 7));
  EXPECT_THAT(why_not_read(*s, 1), HasSubstr("db: record 1: it is a colour image, but the first record is grey; channels = 3"));
  const auto three = open({{"path", path}, {"channels", std::int64_t{3}}});
  EXPECT_THAT(read(*three, split::train, {0, 1}).data, ElementsAre(9, 7, 9, 7, 9, 7, 3, 6, 2, 5, 1, 4));
  const auto one = open({{"path", other}, {"channels", std::int64_t{1}}});
  EXPECT_THAT(read(*one, split::train, {0, 1}).data, ElementsAre(2, 5, 9, 7));
  EXPECT_THAT(read(*open({{"path", other}}), split::train, {1}).data, ElementsAre(9, 7, 9, 7, 9, 7)) << "grey loses nothing";
  EXPECT_THAT(why({{"path", path}, {"channels", std::int64_t{2}}}), HasSubstr("must be 1, 3, or 0"));
  EXPECT_THAT(why({{"path", write("raw", {record(3, 1, 1, "abc", 0)})}, {"channels", std::int64_t{1}}}),
              HasSubstr("raw: record 0: it has 3 channels and is no encoded image"));
}

TEST_F(lmdb_files, name_a_record_whose_label_is_no_class_before_the_job_starts) {
  const std::uint64_t huge = 1 << 30;
  const auto path = write("db", {record(1, 1, 1, "a", 0), record(1, 1, 1, "b", huge), record(1, 1, 1, "c", 2)});
  EXPECT_THAT(why({{"path", path}}), HasSubstr("db: record 1: its label 1073741824 is not a class number (0, 1, 2, ...)"));
  const auto sound = write("sound", {record(1, 1, 1, "a", 0), record(1, 1, 1, "b", 1)});
  EXPECT_THAT(why({{"path", sound}, {"test_path", path}}), HasSubstr("db: record 1: its label 1073741824 is not a class number"));
  const auto larger = write("larger", {record(1, 1, 1, "a", 4)});
  EXPECT_THAT(why({{"path", sound}, {"test_path", larger}}),
              HasSubstr("larger: its largest label is 4, that of " + sound + " is 1; set classes"));
}

TEST_F(lmdb_files, have_a_test_split_of_their_own_or_a_fraction) {
  std::vector<std::string> records;
  for (std::uint64_t i = 0; i < 40; ++i) records.push_back(record(1, 1, 1, std::string(1, static_cast<char>(i)), i % 3));
  const auto path = write("db", records), other = write("other", {record(1, 1, 1, "z", 2)});
  const auto own = open({{"path", path}, {"test_path", other}});
  EXPECT_EQ(own->size(split::train), 40);
  EXPECT_EQ(read(*own, split::test, {0}).data.front(), 'z');
  const auto part = open({{"path", path}, {"test_fraction", 0.25}});
  ASSERT_EQ(part->size(split::test), 10);
  std::set<float> seen;
  for (const auto s : {split::train, split::test})
    for (std::int64_t i = 0; i < part->size(s); ++i) seen.insert(read(*part, s, {i}).data.front());
  EXPECT_EQ(seen.size(), 40u);
  EXPECT_THAT(why({{"path", path}, {"test_path", other}, {"test_fraction", 0.1}}), HasSubstr("exclude each other"));
}

TEST_F(lmdb_files, have_labels_that_do_not_count) {
  const auto path = write("db", {record(1, 1, 1, "a", 0), record(1, 1, 1, "b", 255), record(1, 1, 1, "c", 2),
                                 record(1, 1, 1, "d", static_cast<std::uint64_t>(-1))});
  const auto s = open({{"path", path}, {"ignore_label", std::int64_t{255}}});
  EXPECT_EQ(s->classes(), 3);
  EXPECT_THAT(read(*s, split::train, {0, 1, 2, 3}).labels, ElementsAre(0, -1, 2, -1));
}

TEST_F(lmdb_files, name_a_record_that_does_not_fit) {
  const auto path = write("db", {record(1, 2, 2, "abcd", 1), record(1, 4, 1, "abcd", 0), record(1, 2, 2, "abc", 0), "\xff\xff",
                                 record(1, 2, 2, "abcd", 9)});
  const auto s = open({{"path", path}, {"classes", std::int64_t{3}}});
  EXPECT_EQ(why_not_read(*s, 0), "no error");
  EXPECT_THAT(why_not_read(*s, 1), HasSubstr("db: record 1: its shape or kind differs from that of the first record, 1x2x2"));
  EXPECT_THAT(why_not_read(*s, 2), HasSubstr("db: record 2: its Datum is damaged: 3 values for 1x2x2"));
  EXPECT_THAT(why_not_read(*s, 3), HasSubstr("db: record 3: its Datum is damaged"));
  EXPECT_THAT(why_not_read(*s, 4), HasSubstr("db: record 4: its label 9 is not below classes = 3"));
  EXPECT_THAT(why({{"path", path}}), HasSubstr("db: record 2: its Datum is damaged")) << "labels are counted at the start";
}

TEST_F(lmdb_files, are_refused_with_the_reason) {
  EXPECT_THAT(why({{"path", dir_.file("nowhere")}}), HasSubstr("nowhere: there is no such folder or file"));
  EXPECT_THAT(why({{"path", write("empty", {})}}), HasSubstr("empty: the database has no records"));
  const auto text = dir_.file("text.mdb");
  test::write_bytes(text, std::vector<std::uint8_t>(8192, 'x'));
  EXPECT_THAT(why({{"path", text}}), HasSubstr("text.mdb: it is no LMDB database"));
  const auto path = write("db", {record(1, 2, 2, "abcd", 1)});
  EXPECT_THAT(why({{"path", path}, {"mean", std::vector<double>{1, 2}}}),
              HasSubstr("mean has 2 numbers, but an example has 1 channels"));
}

TEST_F(lmdb_files, name_a_file_that_is_cut_short_while_it_is_read) {
  const auto path = write("db", std::vector<std::string>(20, record(1, 30, 100, std::string(3000, 'x'), 1)));
  const auto s = open({{"path", path}, {"classes", std::int64_t{3}}});
  EXPECT_EQ(why_not_read(*s, 19), "no error");
  std::filesystem::resize_file(path + "/data.mdb", 3 * 4096);
  EXPECT_THAT(why_not_read(*s, 19), HasSubstr("db: record 19: it has been cut short"));
}

TEST_F(lmdb_files, name_a_file_that_is_modified_while_it_is_read) {
  const auto path = write("db", {record(1, 2, 2, "abcd", 1)}), file = path + "/data.mdb";
  const auto long_ago = std::filesystem::last_write_time(file) - std::chrono::hours(1);
  std::filesystem::last_write_time(file, long_ago);
  const auto s = open({{"path", path}});
  EXPECT_EQ(why_not_read(*s, 0), "no error");
  write("db", {record(1, 2, 2, "abcd", 1), record(1, 2, 2, "abcd", 1)});
  EXPECT_THAT(why_not_read(*s, 0), HasSubstr("db: record 0: it was modified while it was read"));
}

TEST(datums, are_an_error_when_they_end_before_a_value) {
  for (const char tag : {'\x08', '\x22', '\x28', '\x32', '\x35', '\x38'}) {
    const std::vector<std::uint8_t> exact{static_cast<std::uint8_t>(tag)};  // ASan sees a read behind it
    EXPECT_THAT(test::error_text(parse_datum(exact)), HasSubstr("its Datum is damaged: ")) << static_cast<int>(tag);
  }
}

TEST(datums, are_a_record_or_an_error_whatever_the_bytes) {
  const std::string sound = record(3, 2, 2, "abcdefghijkl", 7);
  std::mt19937_64 draw(11);
  int good = 0;
  for (int i = 0; i < 200000; ++i) {
    auto bytes = sound;
    for (int n = 1 + i % 3; n > 0; --n) bytes[draw() % bytes.size()] = static_cast<char>(draw());
    if (i % 4 == 0) bytes.resize(draw() % bytes.size());
    const std::vector<std::uint8_t> exact(bytes.begin(), bytes.end());  // ASan sees a read behind it
    const auto d = parse_datum(exact);
    if (!d) continue;
    ++good;
    const auto values = d->floats > 0 ? d->floats : d->data.size();
    ASSERT_TRUE(d->encoded || static_cast<std::uint64_t>(d->count()) == values);
    std::vector<float> out(d->floats);
    copy_floats(exact, out.data());
  }
  EXPECT_GT(good, 1000);
}

}  // namespace
}  // namespace troupe
