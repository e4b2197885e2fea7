// Names of classes in packed data: they round-trip, a file without them keeps its version, and
// malformed ones are rejected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "runtime/checksum/crc32c.hpp"
#include "runtime/data/packed.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe {
namespace {

using some_names = std::vector<std::string>;

// Four classes, perhaps with names.
class source_with_names final : public source {
 public:
  explicit source_with_names(some_names names) : names_(std::move(names)) {}
  shape example() const override { return {1}; }
  std::int64_t classes() const override { return 4; }
  some_names class_names() const override { return names_; }
  std::int64_t size(split s) const override { return s == split::train ? 8 : 2; }
  void read(split, const std::vector<std::int64_t>& indices, tensor& data, tensor& label) const override {
    for (std::size_t k = 0; k < indices.size(); ++k) {
      data.mutable_data<float>()[k] = 1;
      label.mutable_data<std::int32_t>()[k] = static_cast<std::int32_t>(indices[k] % 4);
    }
  }

 private:
  some_names names_;
};

std::vector<std::uint8_t> packed_bytes(const source& s, const std::string& path) {
  const auto r = pack(s, path);
  if (!r) ADD_FAILURE() << r.error().text;
  return test::read_bytes(path);
}

TEST(data_packed_names, round_trip_and_files_without_names_keep_their_version) {
  test::temp_dir dir;
  const source_with_names named({"cat", "iris, blue", "", "d\xf6g\n"});
  const auto bytes = packed_bytes(named, dir.file("named"));
  EXPECT_EQ(bytes[8], 4) << "version";
  const auto got = open_packed(bytes_in_memory(bytes), "named");
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ((*got)->class_names(), named.class_names());
  EXPECT_TRUE((*got)->symbols().empty());
  EXPECT_EQ(packed_bytes(**got, dir.file("again")), bytes);

  // Older programs read a file without names.
  EXPECT_EQ(packed_bytes(source_with_names({}), dir.file("plain"))[8], 1);
  // No class has a name if not all have one.
  EXPECT_EQ(packed_bytes(source_with_names({"cat"}), dir.file("some"))[8], 1);
}

TEST(data_packed_names, of_another_number_or_beyond_the_header_are_rejected) {
  test::temp_dir dir;
  const auto sound = packed_bytes(source_with_names({"a", "b", "c", "d"}), dir.file("p"));
  std::uint32_t length = 0;
  std::memcpy(&length, sound.data() + 12, 4);
  const std::size_t at = length - 4 - 4 * 5 - 4;  // four names of one byte, and their number
  const auto error_of = [&](std::size_t where, std::uint32_t value) {
    auto b = sound;
    std::memcpy(b.data() + where, &value, 4);
    const auto sum = crc32c(0, b.data(), length - 4);
    std::memcpy(b.data() + length - 4, &sum, 4);
    const auto r = open_packed(bytes_in_memory(b), "x");
    return r ? std::string("no error") : r.error().text;
  };
  EXPECT_EQ(error_of(at, 4), "no error");
  for (const std::uint32_t n : {1U, 3U, 5U, ~0U})
    EXPECT_EQ(error_of(at, n), "x: its header has an invalid number of names of classes") << n;
  for (const std::uint32_t n : {0U, 2U, 1U << 31, ~0U})
    EXPECT_EQ(error_of(at + 4, n), "x: its header's length differs from its fields") << n;
}

TEST(data_packed_names, that_a_header_cannot_hold_are_rejected_before_writing) {
  test::temp_dir dir;
  const auto r = pack(source_with_names(some_names(4, std::string(5 << 20, 'n'))), dir.file("q"));
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().text, dir.file("q") +
                                ": this source cannot be packed: the names of its classes need a header of 20.0 MiB, more "
                                "than 16.0 MiB; give the classes shorter names");
  EXPECT_TRUE(std::filesystem::is_empty(dir.path));
}

}  // namespace
}  // namespace troupe
