#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "ops/device.hpp"
#include "runtime/data/sampler.hpp"
#include "runtime/data/source.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe {
namespace {

using test::temp_dir;
using testing::ElementsAre;
using testing::HasSubstr;

std::shared_ptr<const source> open_text(const std::string& path, options o = {}) {
  source_registry r;
  add_stock_sources(r);
  const auto* t = r.find("text");
  o.values["path"] = path;
  if (!o.has("sequence")) o.values["sequence"] = std::int64_t{3};
  return t->open(check_options(o, t->specs), 1);
}
std::string text_error_of(const std::string& path, const options& o = {}) {
  try {
    open_text(path, o);
  } catch (const option_error& e) {
    return e.key + ": " + e.what();
  }
  return "no error";
}

struct text_file {
  explicit text_file(const std::string& text) { test::write_bytes(path(), {text.begin(), text.end()}); }
  std::string path() const { return dir.file("t.txt"); }
  temp_dir dir;
};

struct read_back {
  std::vector<std::int32_t> data, label;
};
read_back read_text(const source& s, split which, const std::vector<std::int64_t>& indices) {
  const auto d = make_cpu_device();
  const auto n = static_cast<std::int64_t>(indices.size());
  tensor data = tensor::allocate(*d, {n, s.example()[0]}, dtype::i32), label = tensor::allocate(*d, {n, s.label()[0]}, dtype::i32);
  s.read(which, indices, data, label);
  const auto list = [](const tensor& t) {
    return std::vector<std::int32_t>(t.data<std::int32_t>(), t.data<std::int32_t>() + t.count());
  };
  return {list(data), list(label)};
}

TEST(text_source, ids_follow_code_points_and_labels_are_the_next_character) {
  const text_file f(
      "cabbac\xc3\xa9"
      "ba\xe2\x82\xac");  // c a b b a c é b a €
  const auto s = open_text(f.path(), {{{"test_fraction", 0.0}}});
  EXPECT_TRUE(s->ids());
  EXPECT_THAT(s->symbols(), ElementsAre("a", "b", "c", "\xc3\xa9", "\xe2\x82\xac"));
  EXPECT_EQ(s->classes(), 5);
  EXPECT_EQ(s->size(split::train), 3);
  EXPECT_EQ(s->size(split::test), 0);
  const auto r = read_text(*s, split::train, {0, 2, -1});
  EXPECT_THAT(r.data, ElementsAre(2, 0, 1, 3, 1, 0, 0, 0, 0));
  EXPECT_THAT(r.label, ElementsAre(0, 1, 1, 1, 0, 4, -1, -1, -1));
}

TEST(text_source, the_test_split_is_the_end_and_labels_do_not_cross) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += static_cast<char>('A' + i);
  const text_file f(text);
  const auto s = open_text(f.path(), {{{"test_fraction", 0.2}, {"sequence", std::int64_t{3}}}});
  EXPECT_EQ(s->size(split::train), 13);  // 40 characters
  EXPECT_EQ(s->size(split::test), 3);    // 10
  EXPECT_THAT(read_text(*s, split::train, {12}).label, ElementsAre(37, 38, 39));
  EXPECT_THAT(read_text(*s, split::test, {0}).data, ElementsAre(40, 41, 42));
  EXPECT_THAT(read_text(*s, split::test, {2}).label, ElementsAre(47, 48, 49));
}

TEST(text_source, reads_any_file_as_bytes) {
  const text_file f(std::string("\xff\x00\xff\x00\xfe\x01", 6));
  EXPECT_THAT(text_error_of(f.path()), HasSubstr("byte 0 (line 1) is not UTF-8"));
  const auto s = open_text(f.path(), {{{"unit", std::string("byte")}, {"test_fraction", 0.0}}});
  EXPECT_EQ(s->classes(), 4);
  EXPECT_THAT(read_text(*s, split::train, {0}).data, ElementsAre(3, 0, 3));
}

TEST(text_source, reports_invalid_files) {
  const temp_dir dir;
  EXPECT_THAT(text_error_of(dir.file("none")), HasSubstr("path: " + dir.file("none") + ": cannot open: No such file"));
  EXPECT_THAT(text_error_of(dir.path), HasSubstr("not a regular file"));
  EXPECT_THAT(text_error_of(std::string("a\0b", 3)), HasSubstr("NUL byte"));
  test::write_bytes(dir.file("empty"), {});
  EXPECT_THAT(text_error_of(dir.file("empty")), HasSubstr("the file is empty"));
  const text_file one("abc"), lines("one\ntwo\nthr\xe2\x28\xa1");
  EXPECT_THAT(text_error_of(one.path()),
              HasSubstr("sequence: " + one.path() + ": the training part of 3 characters has no sequence of 3"));
  EXPECT_THAT(text_error_of(lines.path()), HasSubstr("byte 11 (line 3) is not UTF-8"));
  const text_file few(std::string(30, 'x'));
  EXPECT_THAT(text_error_of(few.path()),
              HasSubstr("the test part of 3 characters has no sequence of 3 and the character after it"));
}

TEST(text_source, rejects_utf8_that_rfc_3629_rejects) {
  for (const char* bad : {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x80\x80\x80",
                          "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xe2\x82", "\xf0\x9f\x98", "\xc3", "\xc3\xc3"}) {
    const text_file f(std::string("0123456789abcdefghijklmnopqrstuvwxyz") + bad);
    EXPECT_THAT(text_error_of(f.path()), HasSubstr("byte 36 (line 1) is not UTF-8"));
  }
  const text_file good("0123456789abcdefghijklmnopqrstuvwxyz0123456789\xf0\x9f\x98\x80\xed\x9f\xbf\xf4\x8f\xbf\xbf\xc2\x80");
  EXPECT_EQ(open_text(good.path())->classes(), 40);
}

// Any bytes give an error that names the file, or sequences whose ids are in the vocabulary and
// spell the file.
TEST(text_source, any_bytes_give_a_text_or_an_error) {
  std::mt19937 rng(3);
  const temp_dir dir;
  std::uint64_t texts = 0;
  for (std::uint64_t i = 0; i < test::fuzz_inputs(600); ++i) {
    std::string bytes(rng() % 60, 0);
    for (auto& b : bytes)
      b = static_cast<char>(i % 3 == 0 ? rng() % 256 : i % 3 == 1 ? 'a' + rng() % 5 : (rng() % 2 ? 0xc3 : 0xa0 + rng() % 4));
    test::write_bytes(dir.file("f"), {bytes.begin(), bytes.end()});
    options o{{{"test_fraction", 0.0}, {"sequence", static_cast<std::int64_t>(1 + rng() % 4)}}};
    if (rng() % 2) o.values["unit"] = std::string("byte");
    if (text_error_of(dir.file("f"), o) != "no error") continue;
    ++texts;
    const auto s = open_text(dir.file("f"), o);
    std::string spelt;
    for (std::int64_t k = 0; k < s->size(split::train); ++k) {
      const auto r = read_text(*s, split::train, {k});
      for (auto id : r.data) spelt += s->symbols().at(static_cast<std::size_t>(id));
      for (auto id : r.label) ASSERT_LT(id, s->classes());
    }
    ASSERT_EQ(spelt, bytes.substr(0, spelt.size()));
  }
  EXPECT_GT(texts, 200u);
}

TEST(sequence_sampler, each_position_reads_its_own_part_in_order) {
  sampler_registry r;
  add_stock_samplers(r);
  sampler_config c;
  c.examples = 14, c.batch = 4;
  const auto s = r.find("lanes")->make({}, c);
  EXPECT_TRUE(s->continues_sequences());
  EXPECT_FALSE(r.find("shuffle")->make({}, c)->continues_sequences());
  EXPECT_EQ(s->steps_per_epoch(), 3);
  EXPECT_THAT(s->indices(0, 0, 4), ElementsAre(0, 3, 6, 9));
  EXPECT_THAT(s->indices(1, 0, 4), ElementsAre(1, 4, 7, 10));
  EXPECT_THAT(s->indices(5, 1, 2), ElementsAre(5, 8));
  EXPECT_THAT(s->indices(6, 0, 4), ElementsAre(0, 3, 6, 9));
}

TEST(sequence_sampler, an_evaluation_takes_one_example_of_each_part_in_turn) {
  eval_sampler_registry r;
  add_stock_eval_samplers(r);
  const auto s = r.find("lanes")->make({}, {1, 11, 4});
  EXPECT_EQ(s->examples(), 8);
  EXPECT_THAT(s->indices(9, 0, 4), ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(s->indices(9, 4, 4), ElementsAre(1, 3, 5, 7));
  EXPECT_THROW(r.find("lanes")->make({}, {1, 3, 4}), option_error);
}

}  // namespace
}  // namespace troupe
