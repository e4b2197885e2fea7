// A packed file that changes while it is read: overwritten or truncated, it fails with its name,
// and no invalid value is returned.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>

#include "runtime/checksum/crc32c.hpp"
#include "runtime/data/packed.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe {
namespace {

using test::temp_dir;
using testing::HasSubstr;

std::shared_ptr<const source> open_changing(const std::string& kind, std::map<std::string, option_value, std::less<>> keys) {
  source_registry r;
  add_stock_sources(r);
  const auto* t = r.find(kind);
  return t->open(check_options(options{std::move(keys)}, t->specs), 3);
}

// Labels of examples that are read as for the net, or the error's text.
std::string read_as_text(const source& s, const std::vector<std::int64_t>& which) {
  shape data{static_cast<std::int64_t>(which.size())}, label = data;
  for (int i = 0; i < s.example().rank(); ++i) data.push_back(s.example()[i]);
  for (int i = 0; i < s.label().rank(); ++i) label.push_back(s.label()[i]);
  std::vector<float> values(static_cast<std::size_t>(data.count()));
  std::vector<std::int32_t> labels(static_cast<std::size_t>(label.count()));
  auto d = tensor::borrow(values.data(), data, s.ids() ? dtype::i32 : dtype::f32);
  auto l = tensor::borrow(labels.data(), label, dtype::i32);
  try {
    s.read(split::train, which, d, l);
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  std::string text;
  for (auto v : labels) text += (text.empty() ? "" : " ") + std::to_string(v);
  return text;
}

struct packed_under_change : testing::Test {
  temp_dir dir;
  std::string name = dir.file("p");
  packed_header head;

  std::shared_ptr<const source> opened(const source& from) {
    head = pack(from, name).value().header;
    return open_changing("packed", {{"path", name}});
  }
  std::shared_ptr<const source> opened() {
    return opened(*open_changing("synthetic", {{"shape", std::vector<std::int64_t>{6}},
                                               {"classes", std::int64_t{4}},
                                               {"examples", std::int64_t{20}},
                                               {"test_examples", std::int64_t{2}}}));
  }
  void overwrite(std::int64_t at, std::int32_t value, bool with_checksum) {
    std::fstream f(name, std::ios::in | std::ios::out | std::ios::binary);
    f.seekp(packed_alignment + at);
    f.write(reinterpret_cast<const char*>(&value), sizeof value);
    f.flush();
    if (!with_checksum) return;
    std::vector<char> block(static_cast<std::size_t>(head.checked_bytes()));
    f.seekg(packed_alignment);
    f.read(block.data(), static_cast<std::streamsize>(block.size()));
    const auto sum = crc32c(0, block.data(), block.size());
    f.seekp(packed_alignment + head.checked_bytes());
    f.write(reinterpret_cast<const char*>(&sum), sizeof sum);
  }
  std::int64_t label_at(std::int64_t i) const { return head.block_examples * head.value_bytes() + i * head.label_bytes(); }
};

// The block, and so its labels, had been verified before.
TEST_F(packed_under_change, an_overwritten_label_is_detected_at_every_read) {
  const auto s = opened();
  const auto before = read_as_text(*s, {3, 4});
  for (const bool with_checksum : {false, true}) {
    overwrite(label_at(4), 60000, with_checksum);
    for (int again = 0; again < 2; ++again)
      EXPECT_THAT(read_as_text(*s, {3, 4}), HasSubstr(name + ": training examples 0 to 19 are damaged: ")) << with_checksum;
  }
  overwrite(label_at(4), -7, true);
  EXPECT_EQ(read_as_text(*s, {3, 4}), name + ": training examples 0 to 19 are damaged: a label that is not a class");
}

TEST_F(packed_under_change, an_overwritten_id_is_detected_at_every_read) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += static_cast<char>('a' + i * i % 7);
  test::write_bytes(dir.file("t"), {text.begin(), text.end()});
  const auto s = opened(*open_changing("text", {{"path", dir.file("t")}, {"sequence", std::int64_t{5}}}));
  read_as_text(*s, {0, 2});
  overwrite(2 * head.value_bytes() + 4, 60000, true);
  EXPECT_THAT(read_as_text(*s, {0, 2}), HasSubstr(" are damaged: an id that is not a symbol"));
}

// Blocks are verified again after the file was modified.
TEST_F(packed_under_change, overwritten_values_are_detected_by_their_checksum) {
  const auto s = opened();
  read_as_text(*s, {0, 19});
  overwrite(3 * head.value_bytes(), 0x41424344, false);
  std::filesystem::last_write_time(name, std::filesystem::last_write_time(name) + std::chrono::hours(1));
  EXPECT_EQ(read_as_text(*s, {0}), name + ": training examples 0 to 19 are damaged: wrong CRC32C");
}

TEST_F(packed_under_change, a_file_of_which_only_the_time_changed_is_still_read) {
  const auto s = opened();
  const auto before = read_as_text(*s, {0, 19, -1});
  std::filesystem::last_write_time(name, std::filesystem::last_write_time(name) + std::chrono::hours(1));
  EXPECT_EQ(read_as_text(*s, {0, 19, -1}), before);
}

TEST_F(packed_under_change, a_truncated_file_fails_with_its_name) {
  const auto s = opened();
  read_as_text(*s, {0, 19});
  std::filesystem::resize_file(name, packed_alignment + 10);
  EXPECT_THAT(read_as_text(*s, {19}), HasSubstr(name + ": it has been cut short: "));
  std::filesystem::resize_file(name, 0);
  EXPECT_THAT(read_as_text(*s, {0}), HasSubstr(name + ": it has been cut short: "));
}

}  // namespace
}  // namespace troupe
