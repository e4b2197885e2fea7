// Files that travel over the control plane in pieces.
#include "runtime/cluster/pieces.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe::control {
namespace {

TEST(pieces, a_file_is_read_in_pieces_of_which_the_last_is_shorter) {
  const test::temp_dir dir;
  const auto file = dir.file("weights");
  std::string all(piece_bytes + 5, 'a');
  all.back() = 'z';
  std::ofstream(file) << all;
  const auto first = read_piece({7, 0}, file, "weights");
  EXPECT_EQ(first.error, "");
  EXPECT_EQ(first.job, 7u);
  EXPECT_EQ(first.total, all.size());
  EXPECT_EQ(first.bytes, all.substr(0, piece_bytes));
  const auto second = read_piece({7, piece_bytes}, file, "weights");
  EXPECT_EQ(second.offset, piece_bytes);
  EXPECT_EQ(second.bytes, "aaaaz");
  const auto behind = read_piece({7, all.size()}, file, "weights");
  EXPECT_EQ(behind.error, "");
  EXPECT_EQ(behind.total, all.size());
  EXPECT_EQ(behind.bytes, "");
}

TEST(pieces, a_file_that_is_missing_or_a_folder_is_named) {
  const test::temp_dir dir;
  EXPECT_EQ(read_piece({7, 0}, "", "weights").error, "there are no weights");
  EXPECT_EQ(read_piece({7, 0}, dir.file("none"), "weights").error, "there are no weights");
  EXPECT_NE(read_piece({7, 0}, dir.path, "weights").error, "");
}

}  // namespace
}  // namespace troupe::control
