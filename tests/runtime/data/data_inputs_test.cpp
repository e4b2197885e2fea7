// Files that a user gives to a trained net: .npy, CSV in pieces, IDX, and every reason to refuse
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "ops/device.hpp"
#include "runtime/data/inputs.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe {
namespace {

using test::temp_dir;
using testing::ElementsAre;
using testing::HasSubstr;

struct input_files : testing::Test {
  std::string write(const std::string& name, const std::string& bytes) const {
    test::write_bytes(dir.file(name), {bytes.begin(), bytes.end()});
    return dir.file(name);
  }
  // The values of examples `indices`, or an error.
  std::vector<float> values(const input_result& r, const std::vector<std::int64_t>& indices) const {
    if (!r) {
      ADD_FAILURE() << r.error().text;
      return {};
    }
    const auto& s = **r;
    const auto n = static_cast<std::int64_t>(indices.size());
    auto data = tensor::allocate(*dev, {n, s.example().count()}, dtype::f32), label = tensor::allocate(*dev, {n}, dtype::i32);
    s.read(split::test, indices, data, label);
    for (std::int64_t i = 0; i < n; ++i) EXPECT_EQ(label.data<std::int32_t>()[i], -1);
    return {data.data<float>(), data.data<float>() + data.count()};
  }
  // The error without the folder's name.
  std::string error(const input_result& r) const {
    const auto* wrong = r ? nullptr : &r.error().text;
    if (!wrong) return "no error";
    EXPECT_EQ(wrong->rfind(dir.path, 0), 0u) << *wrong;
    return wrong->substr(wrong->rfind('/') + 1);
  }

  temp_dir dir;
  std::unique_ptr<device> dev = make_cpu_device();
};

std::string npy_text(const std::string& descr, const std::string& shape, const std::string& numbers, const char* order = "False") {
  auto header = "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
  header += std::string(118 - header.size(), ' ') + "\n";
  return std::string("\x93NUMPY\x01\x00\x77\x00", 10) + header + numbers;
}
template <class T>
std::string raw_numbers(const std::vector<T>& v) {
  std::string s(v.size() * sizeof(T), '\0');
  std::memcpy(s.data(), v.data(), s.size());
  return s;
}

const input_format pairs{{2}, false, {}, {}, false};

TEST_F(input_files, npy_has_the_numbers_of_every_type) {
  const auto read = [&](const std::string& descr, const std::string& numbers) {
    return values(open_npy_input(write("a.npy", npy_text(descr, "(2, 2)", numbers)), pairs), {1, 0, -1});
  };
  const auto all = ElementsAre(3, 4, 1, 2, 0, 0);
  EXPECT_THAT(read("<f4", raw_numbers<float>({1, 2, 3, 4})), all);
  EXPECT_THAT(read("<f8", raw_numbers<double>({1, 2, 3, 4})), all);
  EXPECT_THAT(read("|u1", raw_numbers<std::uint8_t>({1, 2, 3, 4})), all);
  EXPECT_THAT(read("<u2", raw_numbers<std::uint16_t>({1, 2, 3, 4})), all);
  EXPECT_THAT(read("<u4", raw_numbers<std::uint32_t>({1, 2, 3, 4})), all);
  EXPECT_THAT(read("|i1", raw_numbers<std::int8_t>({1, 2, 3, 4})), all);
  EXPECT_THAT(read("<i2", raw_numbers<std::int16_t>({1, 2, 3, 4})), all);
  EXPECT_THAT(read("<i4", raw_numbers<std::int32_t>({1, 2, 3, 4})), all);
  EXPECT_THAT(read("<i8", raw_numbers<std::int64_t>({1, 2, 3, 4})), all);
  EXPECT_THAT(read("|b1", std::string("\0\1\1\0", 4)), ElementsAre(1, 0, 0, 1, 0, 0));
}

TEST_F(input_files, npy_of_integers_is_scaled_and_of_floats_only_on_request) {
  input_format f{{2, 1, 1}, false, {0.5, 2}, {1, 0}, false};
  const auto bytes = write("u.npy", npy_text("|u1", "(1, 2, 1, 1)", "\x0a\x0b"));
  const auto floats = write("f.npy", npy_text("<f4", "(1, 2)", raw_numbers<float>({10, 11})));
  EXPECT_THAT(values(open_npy_input(bytes, f), {0}), ElementsAre(4, 22)) << "a pair for each channel";
  EXPECT_THAT(values(open_npy_input(floats, f), {0}), ElementsAre(10, 11));
  f.scales_floats = true;
  EXPECT_THAT(values(open_npy_input(floats, f), {0}), ElementsAre(4, 22));
}

TEST_F(input_files, npy_of_another_shape_is_refused_with_both_shapes) {
  const auto refused = [&](const std::string& shape, std::size_t bytes) {
    const input_format images{{1, 2, 3}, false, {}, {}, false};
    return error(open_npy_input(write("a.npy", npy_text("|u1", shape, std::string(bytes, '\0'))), images));
  };
  EXPECT_EQ(refused("(2, 2, 3)", 12), "no error") << "extents of 1 may be left out";
  EXPECT_EQ(refused("(2, 1, 2, 3, 1)", 12), "no error");
  EXPECT_EQ(refused("(2, 3, 2)", 12), "a.npy: an example has shape 3x2, but the net takes 1x2x3");
  EXPECT_EQ(refused("(2, 6)", 12), "a.npy: an example has shape 6, but the net takes 1x2x3 (save array.reshape(-1, 1, 2, 3))");
  EXPECT_EQ(refused("(6,)", 6), "a.npy: an example has shape scalar, but the net takes 1x2x3");
  EXPECT_THAT(refused("(2, 3)", 6), HasSubstr("The first dimension counts examples"));
  EXPECT_EQ(refused("()", 1), "a.npy: it is a single number, not an array of examples");
  EXPECT_EQ(refused("(0, 2, 3)", 0), "a.npy: it has no examples");
  const input_format colours{{3, 2, 2}, false, {}, {}, false};
  EXPECT_THAT(error(open_npy_input(write("b.npy", npy_text("|u1", "(1, 2, 2, 3)", std::string(12, '\0'))), colours)),
              HasSubstr("save array.transpose(0, 3, 1, 2)"));
}

TEST_F(input_files, npy_that_cannot_be_read_is_refused_with_the_reason) {
  const auto refused = [&](const std::string& text) { return error(open_npy_input(write("a.npy", text), pairs)); };
  EXPECT_THAT(refused(npy_text("<f4", "(2, 2)", std::string(15, '\0'))), HasSubstr("a.npy: it is truncated: it has 3 numbers"));
  EXPECT_THAT(refused(npy_text("<f4", "(4294967296, 4294967296)", "")), HasSubstr("it is truncated"));
  EXPECT_THAT(refused(npy_text("<f4", "(2, 2)", std::string(16, '\0'), "True")), HasSubstr("numpy.ascontiguousarray"));
  EXPECT_THAT(refused(npy_text(">f4", "(2, 2)", std::string(16, '\0'))),
              HasSubstr("its dtype is '>f4' (floats), which is not supported: save array.astype(numpy.float32)"));
  EXPECT_THAT(refused(npy_text("<u8", "(2, 2)", std::string(32, '\0'))),
              HasSubstr("its dtype is '<u8' (unsigned integers), which is not supported: save array.astype(numpy.int64)"));
  EXPECT_THAT(refused(npy_text("|O", "(2, 2)", std::string(32, '\0'))),
              HasSubstr("its dtype is '|O' (object), which is not supported: it holds Python objects"));
  EXPECT_THAT(refused(npy_text("<U3", "(2,)", std::string(24, '\0'))),
              HasSubstr("its dtype is '<U3' (text), which is not supported: save numbers"));
  EXPECT_THAT(refused(npy_text("<f2", "(2, 2)", std::string(8, '\0'))), HasSubstr("save array.astype(numpy.float32)"));
  EXPECT_THAT(refused(npy_text("<f4", "(2, -2)", std::string(16, '\0'))), HasSubstr("its .npy header is damaged"));
  EXPECT_THAT(refused(npy_text("<f4", "(2 2)", std::string(16, '\0'))), HasSubstr("its .npy header is damaged"));
  EXPECT_THAT(refused(npy_text("<f4", "(2, 2)", "").substr(0, 60)), HasSubstr("it is truncated in its .npy header"));
  EXPECT_THAT(refused("PK\3\4"), HasSubstr("it is no .npy file"));
  EXPECT_THAT(error(open_npy_input(dir.file("absent.npy"), pairs)), HasSubstr("absent.npy: "));
}

TEST_F(input_files, ids_must_be_whole_numbers) {
  input_format f{{2}, true, {}, {}, false};
  const auto read = [&](const std::vector<float>& numbers) {
    const auto made = open_npy_input(write("a.npy", npy_text("<f4", "(1, 2)", raw_numbers(numbers))), f);
    auto data = tensor::allocate(*dev, {1, 2}, dtype::i32), label = tensor::allocate(*dev, {1}, dtype::i32);
    (*made)->read(split::test, {0}, data, label);
    return std::vector<std::int32_t>(data.data<std::int32_t>(), data.data<std::int32_t>() + 2);
  };
  EXPECT_THAT(read({3, 70000}), ElementsAre(3, 70000));
  for (const float bad : {-1.0F, 0.5F, 3e9F, std::numeric_limits<float>::quiet_NaN()})
    EXPECT_THROW(read({0, bad}), std::runtime_error) << bad;
}

TEST_F(input_files, csv_finds_header_separator_and_columns) {
  const auto read = [&](const std::string& text, const csv_input& c = {}) {
    return values(open_csv_input(write("a.csv", text), pairs, c), {0});
  };
  EXPECT_THAT(read("1,2\n3,4\n"), ElementsAre(1, 2));
  EXPECT_THAT(read("x,y\n1,2\n3,4\n"), ElementsAre(1, 2));
  EXPECT_THAT(read("\xef\xbb\xbf\n\"x\";y\r\n1;2\r\n"), ElementsAre(1, 2));
  EXPECT_THAT(read("1\t2\n"), ElementsAre(1, 2));
  EXPECT_THAT(read("name,x,y\nbob,1,2\n", {.ignore = {"name"}}), ElementsAre(1, 2));
  EXPECT_THAT(read("bob,1,2\n", {.ignore = {"0"}}), ElementsAre(1, 2));
  EXPECT_THAT(read("x,kind,y\n1,9,2\n", {.labels = {"kind"}}), ElementsAre(1, 2));
  EXPECT_THAT(read("x,y\n1,2\n", {.labels = {"kind"}}), ElementsAre(1, 2)) << "the file has no labels";
  EXPECT_THAT(read("1,2,9\n", {.labels = {"-1"}}), ElementsAre(1, 2));
  EXPECT_THAT(read("1,2\n", {.labels = {"-1"}}), ElementsAre(1, 2)) << "the file has no labels";
  EXPECT_THAT(read("9,1,2,8\n", {.labels = {"0", "-1"}}), ElementsAre(1, 2)) << "several targets";
  EXPECT_THAT(read("x,u,y,v\n1,9,2,8\n", {.labels = {"v", "u"}}), ElementsAre(1, 2));
  EXPECT_THAT(read("id,x,kind,y\n7,1,9,2\n", {.labels = {"1"}, .absent = {"id", "other"}}), ElementsAre(1, 2))
      << "numbers count the columns that are read";
  input_format scaled{{2}, false, {2, 10}, {1, 0}, false};
  EXPECT_THAT(values(open_csv_input(write("a.csv", "3,4\n"), scaled, {}), {0}), ElementsAre(5, 40));
}

TEST_F(input_files, csv_that_does_not_fit_is_refused_with_its_line) {
  const auto refused = [&](const std::string& text, const csv_input& c = {}) {
    return error(open_csv_input(write("a.csv", text), pairs, c));
  };
  EXPECT_EQ(refused("1,2,3\n"), "a.csv: a line has 3 numbers, but the net takes 2 (2 numbers); --ignore COLUMN skips columns");
  EXPECT_THAT(refused("1,2\n", {.ignore = {"name"}}), HasSubstr("there is no column 'name' (columns: '1', '2')"));
  EXPECT_EQ(refused("x,y\n1,2\n\n3\n"), "a.csv:4: 1 fields, but the first line has 2");
  EXPECT_EQ(refused("x,y\n1,2\n3,oops\n"), "a.csv:3: column 'y': text instead of a number");
  EXPECT_THAT(refused("x,y\n"), HasSubstr("no rows"));
  EXPECT_THAT(refused("\n\n"), HasSubstr("no rows"));
}

TEST_F(input_files, csv_columns_are_found_by_the_names_of_the_training) {
  const csv_input c{.labels = {"kind"}, .inputs = {"x", "y"}};
  const auto read = [&](const std::string& text) { return values(open_csv_input(write("a.csv", text), pairs, c), {0}); };
  const auto refused = [&](const std::string& text) { return error(open_csv_input(write("a.csv", text), pairs, c)); };
  EXPECT_THAT(read("y,note,x\n2,\"a,\nb\",1\n"), ElementsAre(1, 2)) << "in any order, with others";
  EXPECT_THAT(read("u,v\n1,2\n"), ElementsAre(1, 2)) << "no name is known: in the order of the file";
  EXPECT_THAT(read("1,2\n3,4\n"), ElementsAre(1, 2)) << "no header";
  EXPECT_EQ(refused("x,z\n1,2\n"), "a.csv: the net takes column 'y', which is not there (columns: 'x', 'z')");
}

TEST_F(input_files, csv_columns_of_the_same_name_keep_their_order) {
  const csv_input c{.inputs = {"x", "x"}};
  EXPECT_THAT(values(open_csv_input(write("a.csv", "x,y,x\n1,9,2\n"), pairs, c), {0}), ElementsAre(1, 2));
  EXPECT_THAT(error(open_csv_input(write("a.csv", "x,y\n1,2\n"), pairs, c)),
              HasSubstr("the net takes column 'x', which is not there 2 times"));
  EXPECT_THAT(error(open_csv_input(write("a.csv", "x,x,x\n1,2,3\n"), pairs, c)),
              HasSubstr("3 columns have the name 'x', but the net takes 2 of them; --ignore NUMBER"));
  const csv_input without{.ignore = {"1"}, .inputs = {"x", "x"}};
  EXPECT_THAT(values(open_csv_input(write("a.csv", "x,x,x\n1,2,3\n"), pairs, without), {0}), ElementsAre(1, 3));
}

TEST_F(input_files, csv_fields_that_are_missing_are_filled_as_in_training) {
  const input_format scaled{{2}, false, {2}, {1}, false};
  const csv_input c{.inputs = {"x", "y"}, .fill = {10, 20}};
  const auto read = [&](const std::string& text) { return values(open_csv_input(write("a.csv", text), scaled, c), {0}); };
  EXPECT_THAT(read("y,x\nNA,3\n"), ElementsAre(5, 39));
  EXPECT_THAT(read(",3\n1,2\n"), ElementsAre(19, 5)) << "an empty field is no name of a column";
  EXPECT_EQ(error(open_csv_input(write("a.csv", "x,y\n1,\n"), scaled, {})),
            "a.csv:2: column 'y': an empty field instead of a number");
}

TEST_F(input_files, csv_separators_in_quotes_do_not_count) {
  EXPECT_THAT(values(open_csv_input(write("a.csv", "\"a, b, c\";\"d, e\"\n1;2\n"), pairs, {}), {0}), ElementsAre(1, 2));
}

// A record with a line break is not cut between pieces.
TEST_F(input_files, csv_records_with_line_breaks_may_cross_pieces) {
  std::string text = "x,note,y\n";
  constexpr int rows = 100000;
  for (int i = 0; i < rows; ++i)
    text += std::to_string(i) + ",\"" + std::string(static_cast<std::size_t>(i % 40), '\n') + "\"," + std::to_string(-i) + "\n";
  const auto made = open_csv_input(write("a.csv", text), pairs, {.ignore = {"note"}});
  EXPECT_EQ((*made)->size(split::test), rows);
  EXPECT_THAT(values(made, {99999, 0, 54321}), ElementsAre(99999, -99999, 0, 0, 54321, -54321));
  const auto lines = std::count(text.begin(), text.end(), '\n');
  EXPECT_EQ(error(open_csv_input(write("b.csv", text + "1,\"\n\",z\n"), pairs, {.ignore = {"note"}})),
            "b.csv:" + std::to_string(lines + 2) + ": column 'y': text instead of a number");
}

// A piece has about 1 MiB, so this file has several.
TEST_F(input_files, csv_of_several_pieces_is_read_in_any_order) {
  std::string text = "x,y\n";
  constexpr int rows = 300000;
  for (int i = 0; i < rows; ++i) {
    text += std::to_string(i) + "," + std::to_string(-i) + "\n";
    if (i % 1000 == 0) text += "\n";
  }
  ASSERT_GT(text.size(), std::size_t{3} << 20);
  const auto made = open_csv_input(write("a.csv", text), pairs, {});
  EXPECT_EQ((*made)->size(split::test), rows);
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < 60; ++i) indices.push_back(i * 104729 % rows);
  const auto got = values(made, indices);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    EXPECT_EQ(got[2 * i], static_cast<float>(indices[i]));
    EXPECT_EQ(got[2 * i + 1], -static_cast<float>(indices[i]));
  }
  const auto line = std::count(text.begin(), text.end(), '\n') + 1;
  EXPECT_EQ(error(open_csv_input(write("b.csv", text + "1,2,3\n"), pairs, {})),
            "b.csv:" + std::to_string(line) + ": more fields than the 2 of the first line");
}

// Each piece is parsed on its own, but has the fields of the first line of the file.
TEST_F(input_files, csv_is_refused_when_all_rows_of_a_later_piece_are_too_short) {
  const auto first = "8,9," + std::string((std::size_t{1} << 20) - 5, 'n') + "\n";  // exactly a piece
  EXPECT_EQ(error(open_csv_input(write("a.csv", first + "1,2\n3,4\n"), pairs, {.ignore = {"2"}})),
            "a.csv:2: fewer fields than in the first line");
}

TEST_F(input_files, idx_is_scaled_as_bytes) {
  const auto file = write("a-ubyte", std::string("\0\0\x08\2\0\0\0\2\0\0\0\2", 12) + "\1\2\3\4");
  const input_format f{{2}, false, {0.5}, {0}, false};
  EXPECT_THAT(values(open_idx_input(file, f), {1, 0}), ElementsAre(1.5, 2, 0.5, 1));
  EXPECT_EQ(error(open_idx_input(file, {{3}, false, {}, {}, false})), "a-ubyte: an example has shape 2, but the net takes 3");
}

TEST_F(input_files, kind_follows_the_first_bytes_and_then_the_name) {
  const auto kind = [&](const std::string& name, const std::string& bytes) { return input_kind_of(write(name, bytes)).value(); };
  EXPECT_EQ(kind("a", "\x89PNG...."), input_kind::image);
  EXPECT_EQ(kind("a", "\xff\xd8\xff\xe0"), input_kind::image);
  EXPECT_EQ(kind("a.csv", "\x93NUMPY\1"), input_kind::npy);
  EXPECT_EQ(kind("a", std::string("\0\0\x08\3", 4)), input_kind::idx);
  EXPECT_EQ(kind("a.GZ", "\x1f\x8b\x08"), input_kind::idx);
  EXPECT_EQ(kind("a.CSV", "1,2\n"), input_kind::csv);
  EXPECT_EQ(kind("a.png", "no image"), input_kind::image) << "the decoder reports it";
  EXPECT_EQ(kind("a.webp", "RIFF"), input_kind::unknown);
  EXPECT_THAT(input_kind_of(dir.file("absent")).error().text, HasSubstr("absent"));
}

}  // namespace
}  // namespace troupe
