// Forms as curl and browsers send them.
#include "runtime/node/serving/form_data.hpp"

#include <gtest/gtest.h>

namespace troupe {
namespace {

const std::string type = "multipart/form-data; boundary=----abc";

std::string file_part(const std::string& content, const std::string& more = {}) {
  return "------abc\r\nContent-Disposition: form-data; name=\"file\"; filename=\"p; \\\"1\\\".png\"\r\nContent-Type: "
         "image/png\r\n" +
         more + "\r\n" + content + "\r\n";
}

std::string error_in(const std::string& body, const std::string& of = type) {
  const auto r = form_parts(body, of);
  return r ? "no error" : r.error().text;
}

TEST(form_data, has_the_fields_and_the_files_with_their_bytes) {
  const std::string bytes("\r\n--\0----ab\r\n", 14);
  const auto body = "------abc\r\ncontent-disposition: Form-Data; NAME=top\r\n\r\n3\r\n" + file_part(bytes) + "------abc--\r\n";
  const auto parts = form_parts(body, type);
  ASSERT_TRUE(parts) << parts.error().text;
  ASSERT_EQ(parts->size(), 2u);
  EXPECT_EQ((*parts)[0].name, "top");
  EXPECT_FALSE((*parts)[0].is_file);
  EXPECT_EQ((*parts)[0].content, "3");
  EXPECT_EQ((*parts)[1].name, "file");
  EXPECT_TRUE((*parts)[1].is_file);
  EXPECT_EQ((*parts)[1].file, "p; \\\"1\\\".png");
  EXPECT_EQ((*parts)[1].content, bytes);
}

TEST(form_data, is_told_by_its_type) {
  EXPECT_TRUE(is_form_data(type));
  EXPECT_TRUE(is_form_data("Multipart/Form-Data ; boundary=x"));
  EXPECT_FALSE(is_form_data("application/x-www-form-urlencoded"));
  EXPECT_FALSE(is_form_data(""));
}

TEST(form_data, that_is_damaged_is_refused_with_the_reason) {
  const auto whole = file_part("x") + "------abc--\r\n";
  EXPECT_EQ(error_in(whole), "no error");
  EXPECT_EQ(error_in("before\r\n" + whole), "no error");
  EXPECT_EQ(error_in(whole, "multipart/form-data"), "the Content-Type of the form has no boundary of 1 to 70 characters");
  EXPECT_EQ(error_in(whole, "multipart/form-data; boundary=" + std::string(71, 'x')),
            "the Content-Type of the form has no boundary of 1 to 70 characters");
  EXPECT_EQ(error_in(whole, "multipart/form-data; boundary=other"), "the form has no part with the boundary of its Content-Type");
  EXPECT_EQ(error_in(file_part("x")), "the form is truncated: its last boundary is missing");
  EXPECT_EQ(error_in("------abc\r\nno end of the header\r\n------abc--\r\n"),
            "a part of the form has no header lines, or more than 8 KiB of them");
  EXPECT_EQ(error_in(file_part("x", "A: " + std::string(9000, 'y') + "\r\n") + "------abc--\r\n"),
            "a part of the form has no header lines, or more than 8 KiB of them");
  EXPECT_EQ(error_in("------abc junk\r\n\r\n\r\n------abc--"), "a boundary of the form does not end its line");
  std::string many;
  for (std::size_t k = 0; k <= most_form_parts; ++k) many += "------abc\r\n\r\n\r\n";
  EXPECT_EQ(error_in(many + "------abc--\r\n"), "the form has more than 4096 parts");
}

}  // namespace
}  // namespace troupe
