// Tests of sparklines and text tables.
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/base/sparkline.hpp"
#include "runtime/base/text_table.hpp"

namespace troupe {
namespace {

TEST(sparkline, columns_are_means_between_the_least_and_the_largest) {
  EXPECT_EQ(sparkline({1, 2, 3, 4, 5, 6, 7, 8}, 8, true), "▁▂▃▄▅▆▇█");
  EXPECT_EQ(sparkline({1, 1, 8, 8}, 2, false), "_#");
  EXPECT_EQ(sparkline({3, 3}, 10, false), "==") << "equal values are in the middle";
  EXPECT_EQ(sparkline({1, std::nan(""), 2}, 3, false), "_ #");
  EXPECT_EQ(sparkline({}, 5, false), "");
  EXPECT_EQ(sparkline({1, 2, 8}, 10, false), "_.#");
  EXPECT_EQ(sparkline({1, 1, 8, 8}, 2, true), "▁█");
  EXPECT_EQ(sparkline({5}, 10, false), "=");
  EXPECT_EQ(bars({0, 1, 4}, false), " -#");
}

TEST(text_table, aligns_columns_when_cells_differ_in_width) {
  text_table t({"name", "steps", "note"});
  t.right(1);
  t.add({"lenet", "7", ""});
  t.add({"a", "1234567", "best"});
  EXPECT_EQ(t.text(),
            "name     steps  note\n"
            "lenet        7\n"
            "a      1234567  best")
      << "no blanks and no newline at an end";
}

TEST(text_table, counts_characters_when_cells_have_several_bytes_per_character) {
  text_table t({"curve", "mean"});
  t.add({"▁▂█", "1"});
  t.add({"é", "2"});
  EXPECT_EQ(t.text(), "curve  mean\n▁▂█    1\né      2");
}

TEST(text_table, accepts_rows_when_they_are_shorter_or_longer_than_the_head) {
  text_table t({"a", "b"});
  t.add({"long cell"});
  t.add({"x", "y", "z"});
  EXPECT_EQ(t.text(), "a          b\nlong cell\nx          y  z");
}

}  // namespace
}  // namespace troupe
