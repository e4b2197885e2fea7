// Names that are accepted, and text on its way to a terminal or a log.
#include "runtime/base/printable.hpp"

#include <gmock/gmock.h>

#include "runtime/base/wording.hpp"
#include "tests/error_text.hpp"
#include "tests/odd_texts.hpp"

namespace troupe {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(printable, escapes_every_character_that_drives_a_terminal_or_hides_text) {
  EXPECT_EQ(printable("a\x1b[2Jb\r\n\t\x7f"), "a\\x1b[2Jb\\x0d\\x0a\\x09\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\u009b31m");
  EXPECT_EQ(printable("\x9b\xff"), "\\x9b\\xff") << "bytes that are not UTF-8";
  EXPECT_EQ(printable("\xe2\x80\xae"
                      "abc\xe2\x81\xa9\xd8\x9c\xe2\x80\xa8\xe2\x80\x8b\xef\xbb\xbf\xf3\xa0\x80\xa1"),
            "\\u202eabc\\u2069\\u061c\\u2028\\u200b\\ufeff\\U000e0021");
  EXPECT_EQ(printable("Grüße, 日本語 🙂 ▁▂"), "Grüße, 日本語 🙂 ▁▂");
  EXPECT_EQ(printable("a\n\tb\r", line_breaks::kept), "a\n\tb\\x0d");
}

TEST(printable, leaves_no_odd_character_and_is_a_fixed_point) {
  for (const auto& [what, text] : testing_texts::odd_texts()) {
    const auto shown = printable(text);
    EXPECT_EQ(printable(shown), shown) << what;
    EXPECT_EQ(printable(shown, line_breaks::kept), shown) << what;
    for (const unsigned char c : shown) EXPECT_TRUE(c >= 0x20 && c != 0x7f) << what;
  }
}

TEST(printable, quoted_words_use_the_same_escapes) {
  EXPECT_EQ(in_quotes("a\x1b\xc2\x9b\xff"), "'a\\x1b\\u009b\\xff'");
  EXPECT_EQ(in_quotes(std::string(900'000, 'x')), "'" + std::string(80, 'x') + "...'");
}

TEST(names, printable_utf8_of_up_to_200_bytes_is_accepted) {
  for (const std::string& name :
       {std::string("lenet"), std::string("/conv1/Conv"), std::string("Grüße 日本"), std::string(200, 'n')})
    EXPECT_EQ(test::error_text(check_name(name)), "");
  EXPECT_EQ(test::error_text(check_name("")), "the name is empty");
  EXPECT_THAT(test::error_text(check_name(std::string(201, 'n'))), HasSubstr("...' has 201 bytes; at most 200 are allowed"));
  EXPECT_EQ(test::error_text(check_path("/data/" + std::string(4090, 'n'))), "");
  EXPECT_THAT(test::error_text(check_path(std::string(4097, 'n'))), HasSubstr("has 4097 bytes; at most 4096 are allowed"));
}

TEST(names, odd_texts_are_refused_with_a_short_printable_error) {
  for (const auto& [what, text] : testing_texts::odd_texts()) {
    const auto why = test::error_text(check_name(text));
    EXPECT_NE(why, "") << what;
    EXPECT_EQ(printable(why), why) << what;
    EXPECT_LT(why.size(), 700u) << what;
    const auto name = as_name(text);
    EXPECT_EQ(test::error_text(check_name(name)), "") << what << ": " << name;
  }
  EXPECT_EQ(as_name("lenet"), "lenet");
  EXPECT_EQ(as_name("le\x1bnet"), "le\\x1bnet");
  EXPECT_THAT(test::error_text(check_name("a\x1b[2J")), HasSubstr("'a\\x1b[2J' has the unprintable character \\x1b"));
}

TEST(names, shortened_texts_say_how_much_is_missing) {
  EXPECT_EQ(shortened("abc", 3), "abc");
  EXPECT_EQ(shortened("abcdef", 4), "abcd... (2 more bytes)");
  EXPECT_EQ(shortened("aéb", 2), "a... (3 more bytes)") << "not inside a character";
}

TEST(names, utf8_length_refuses_what_is_no_character) {
  EXPECT_EQ(utf8_length(""), 0u);
  EXPECT_EQ(utf8_length("a"), 1u);
  EXPECT_EQ(utf8_length("é"), 2u);
  EXPECT_EQ(utf8_length("日x"), 3u);
  EXPECT_EQ(utf8_length("🙂"), 4u);
  for (const char* bad :
       {"\x80", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xe6\x97", "\xff"})
    EXPECT_EQ(utf8_length(bad), 0u);
}

}  // namespace
}  // namespace troupe
