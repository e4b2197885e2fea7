// The numpy source: the values of all types of numbers, splits, ids, and damaged files. Files that
// NumPy itself writes are in tests/interop/data_files_test.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zip.h>

#include <bit>
#include <cstring>
#include <fstream>
#include <random>

#include "runtime/data/inputs.hpp"
#include "runtime/node/formats/formats.hpp"
#include "runtime/node/formats/numpy_array.hpp"
#include "tests/error_text.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using numpy_options = std::map<std::string, option_value, std::less<>>;

template <class T>
std::string npy(const char* descr, const std::string& extents, const std::vector<T>& numbers) {
  std::string dictionary = std::string("{'descr': '") + descr + "', 'fortran_order': False, 'shape': (" + extents + "), }\n";
  std::string s("\x93NUMPY\1\0", 8);
  s += static_cast<char>(dictionary.size());
  s += static_cast<char>(dictionary.size() >> 8);
  s += dictionary;
  return s.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T));
}

std::string npz(const std::map<std::string, std::string>& members, const std::string& file) {
  zip_t* archive = zip_open(file.c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
  for (const auto& [name, bytes] : members)
    zip_file_add(archive, (name + ".npy").c_str(), zip_source_buffer(archive, bytes.data(), bytes.size(), 0), 0);
  EXPECT_EQ(zip_close(archive), 0);
  std::ifstream in(file, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

class numpy_files : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& bytes) {
    std::ofstream(dir_.file(name), std::ios::binary) << bytes;
    return dir_.file(name);
  }
  std::shared_ptr<const source> open(numpy_options k) {
    const auto t = numpy_source_type();
    k.try_emplace("path", dir_.path);
    return t.open(check_options(options{std::move(k)}, t.specs), 1);
  }
  std::string why(numpy_options k) {
    try {
      open(std::move(k));
    } catch (const option_error& e) {
      return e.what();
    }
    return "no error";
  }
  template <class T>
  static std::vector<T> read(const source& s, split part, const std::vector<std::int64_t>& indices,
                             std::vector<std::int32_t>* labels = nullptr) {
    const auto n = static_cast<std::int64_t>(indices.size());
    std::vector<T> values(indices.size() * static_cast<std::size_t>(s.example().count()), T{99});
    std::vector<std::int32_t> label(indices.size() * static_cast<std::size_t>(s.label().count()), 99);
    auto data = tensor::borrow(values.data(), shape{n, s.example().count()}, dtype_of<T>);
    auto out = tensor::borrow(label.data(), shape{static_cast<std::int64_t>(label.size())}, dtype::i32);
    s.read(part, indices, data, out);
    if (labels) *labels = label;
    return values;
  }
  test::temp_dir dir_;
};

TEST_F(numpy_files, have_the_values_of_all_types_of_numbers) {
  const auto check = [&]<class T>(const char* descr, std::vector<T> numbers) {
    write("x_train.npy", npy(descr, "2, 3", numbers));
    const auto s = open({{"labels", ""}, {"test_data", ""}, {"scale", 0.5}, {"mean", 1.0}});
    EXPECT_EQ(s->size(split::train), 2);
    EXPECT_EQ(s->size(split::test), 0);
    std::vector<double> want;
    for (const auto row : {1, -1, 0})
      for (std::size_t k = 0; k < 3; ++k)
        want.push_back(row < 0 ? 0 : 0.5 * static_cast<double>(numbers[static_cast<std::size_t>(row) * 3 + k]) - 1);
    EXPECT_EQ(read<double>(*s, split::train, {1, -1, 0}), want) << descr;
    const std::vector<float> rounded(want.begin(), want.end());
    EXPECT_EQ(read<float>(*s, split::train, {1, -1, 0}), rounded) << descr;
  };
  check("<f4", std::vector<float>{0.1f, -2, 3e20f, 0, 5, 1e-30f});
  check("<f8", std::vector<double>{0.1, -2, 3e20, 0, 5, 1e-300});
  check("|i1", std::vector<std::int8_t>{-128, 127, 0, 1, 2, 3});
  check("<i2", std::vector<std::int16_t>{-32768, 32767, 0, 1, 2, 3});
  check("<i4", std::vector<std::int32_t>{-2147483647, 2147483647, 0, 1, 2, 3});
  check("<i8", std::vector<std::int64_t>{-5000000000, 5000000000, 0, 1, 2, 3});
  check("|u1", std::vector<std::uint8_t>{255, 0, 128, 1, 2, 3});
  check("<u2", std::vector<std::uint16_t>{65535, 0, 128, 1, 2, 3});
  check("<u4", std::vector<std::uint32_t>{4294967295, 0, 128, 1, 2, 3});
  check("|b1", std::vector<std::uint8_t>{1, 0, 1, 1, 0, 0});
}

TEST_F(numpy_files, give_floats_as_they_are_when_nothing_scales_them) {
  const std::vector<float> numbers{0.1f, -0.0f, 1e-42f, 3};
  write("x_train.npy", npy("<f4", "4", numbers));
  const auto s = open({{"labels", ""}, {"test_data", ""}});
  EXPECT_EQ(s->example(), shape{1});
  const auto got = read<float>(*s, split::train, {0, 1, 2, 3});
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(numbers[i])) << i;
  EXPECT_EQ(s->bytes(), std::nullopt);
}

TEST_F(numpy_files, have_labels_of_each_example_and_of_several_positions) {
  write("x_train.npy", npy("<f4", "3, 2", std::vector<float>(6)));
  write("y_train.npy", npy("<i8", "3, 2", std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}));
  const auto s = open({{"test_data", ""}});
  EXPECT_EQ(s->label(), shape{2});
  EXPECT_EQ(s->classes(), 6);
  std::vector<std::int32_t> labels;
  read<float>(*s, split::train, {2, -1, 0}, &labels);
  EXPECT_THAT(labels, ElementsAre(4, 5, -1, -1, 0, 1));
}

TEST_F(numpy_files, have_labels_that_do_not_count) {
  write("x_train.npy", npy("<f4", "5, 2", std::vector<float>(10)));
  write("y_train.npy", npy("<i8", "5", std::vector<std::int64_t>{0, -1, 2, -100, 255}));
  std::vector<std::int32_t> labels;
  const auto s = open({{"test_data", ""}, {"ignore_label", std::int64_t{255}}});
  EXPECT_EQ(s->classes(), 3);
  read<float>(*s, split::train, {0, 1, 2, 3, 4}, &labels);
  EXPECT_THAT(labels, ElementsAre(0, -1, 2, -1, -1));
  EXPECT_EQ(open({{"test_data", ""}})->classes(), 256) << "255 counts";
  write("y_train.npy", npy("<i8", "5", std::vector<std::int64_t>{1, -1, 1, -1, 1}));
  EXPECT_THAT(why({{"test_data", ""}}), HasSubstr("negative labels do not count, and no label is 0"));
  EXPECT_EQ(open({{"test_data", ""}, {"classes", std::int64_t{2}}})->classes(), 2);
  EXPECT_EQ(open({{"test_data", ""}, {"ignore_label", std::int64_t{-1}}})->classes(), 2) << "it is named";
}

TEST_F(numpy_files, have_as_many_ids_as_the_data_and_as_many_classes_as_the_labels) {
  write("x_train.npy", npy("<i4", "2, 3", std::vector<std::int32_t>{0, 999, 5, 7, 8, 9}));
  write("x_test.npy", npy("<i4", "1, 3", std::vector<std::int32_t>{1, 1203, 2}));
  write("y_train.npy", npy("<i8", "2", std::vector<std::int64_t>{0, 2}));
  write("y_test.npy", npy("<i8", "1", std::vector<std::int64_t>{1}));
  const auto s = open({{"ids", true}});
  EXPECT_EQ(s->classes(), 3);
  EXPECT_EQ(s->vocabulary(), 1204);
  EXPECT_EQ(open({{"ids", true}, {"test_data", ""}})->vocabulary(), 1000);
  EXPECT_EQ(open({{"ids", true}, {"vocabulary", std::int64_t{5000}}})->vocabulary(), 5000);
  EXPECT_EQ(open({})->vocabulary(), 0) << "values";
}

TEST_F(numpy_files, have_float_labels_as_targets) {
  write("x_train.npy", npy("<f4", "3, 2", std::vector<float>(6)));
  write("y_train.npy", npy("<f8", "3", std::vector<double>{0.5, -2, 1e300}));
  write("two.npy", npy("<f4", "3, 2", std::vector<float>{1, 2, 3, 4, 5, 6}));
  write("whole.npy", npy("<i4", "3", std::vector<std::int32_t>{-4, 7, 1}));
  write("caffe.npy", npy("<f4", "3", std::vector<float>{0, 2, 1}));
  write("bad.npy", npy("<f4", "3", std::vector<float>{0, 1, std::numeric_limits<float>::infinity()}));
  const auto targets = [&](const source& s) {
    std::vector<float> x(6);
    std::vector<double> y(static_cast<std::size_t>(3 * s.label().count()), 99);
    auto data = tensor::borrow(x.data(), shape{3, 2}, dtype::f32);
    auto label = tensor::borrow(y.data(), shape{static_cast<std::int64_t>(y.size())}, dtype::f64);
    s.read(split::train, {2, -1, 0}, data, label);
    return y;
  };
  const numpy_options no_test{{"test_data", ""}};
  const auto with = [&](numpy_options more) {
    more.insert(no_test.begin(), no_test.end());
    return more;
  };
  const auto s = open(no_test);
  EXPECT_TRUE(s->targets());
  EXPECT_EQ(s->classes(), 0);
  EXPECT_EQ(s->label(), shape{1});
  EXPECT_THAT(targets(*s), ElementsAre(1e300, 0, 0.5));
  EXPECT_THAT(targets(*open(with({{"labels", "two"}}))), ElementsAre(5, 6, 0, 0, 1, 2));
  EXPECT_THAT(targets(*open(with({{"labels", "whole"}, {"label_kind", "values"}}))), ElementsAre(1, 0, -4));
  EXPECT_EQ(open(with({{"labels", "caffe"}, {"label_kind", "classes"}}))->classes(), 3);
  EXPECT_THAT(why(with({{"label_kind", "classes"}})), HasSubstr("y_train.npy: the label at index 0 is not a class number"));
  EXPECT_THAT(why(with({{"labels", "bad"}})), HasSubstr("bad.npy: the target at index 2 is not finite"));
}

TEST_F(numpy_files, split_by_a_fraction_without_a_row_in_both_parts) {
  std::vector<std::int32_t> rows(50);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int32_t>(i);
  write("x_train.npy", npy("<i4", "50, 1", rows));
  write("y_train.npy", npy("<i4", "50", rows));
  const auto s = open({{"test_fraction", 0.2}, {"ids", true}});
  ASSERT_EQ(s->size(split::test), 10);
  std::vector<std::int32_t> all, labels;
  for (const auto part : {split::train, split::test})
    for (std::int64_t i = 0; i < s->size(part); ++i) {
      all.push_back(read<std::int32_t>(*s, part, {i}, &labels).front());
      EXPECT_EQ(labels.front(), all.back());
    }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, rows);
}

TEST_F(numpy_files, stay_bytes_when_they_are_bytes) {
  write("x_train.npy", npy("|u1", "2, 2", std::vector<std::uint8_t>{1, 2, 3, 255}));
  const auto s = open({{"labels", ""}, {"test_data", ""}, {"scale", 0.5}, {"mean", 0.25}});
  ASSERT_TRUE(s->bytes());
  EXPECT_THAT(s->bytes()->scale, ElementsAre(0.5));
  std::vector<std::uint8_t> out(6, 9);
  s->read_bytes(split::train, {1, -1, 0}, out.data());
  EXPECT_THAT(out, ElementsAre(3, 255, 0, 0, 1, 2));
}

TEST_F(numpy_files, to_predict_are_scaled_as_those_of_the_job) {
  const std::vector<float> numbers{1, 2, 3, 4};
  write("x_train.npy", npy("<f4", "2, 2", numbers));
  const numpy_options given{{"path", dir_.path}, {"labels", ""}, {"test_data", ""}, {"scale", 0.5}, {"mean", 0.25}};
  const auto s = open(given);
  const auto values = check_options(options{given}, numpy_source_type().specs);
  const auto input = open_npy_input(dir_.file("x_train.npy"), input_format_of(*s, "numpy", values));
  ASSERT_TRUE(input) << test::error_text(input);
  EXPECT_EQ(read<float>(**input, split::test, {0, 1}), read<float>(*s, split::train, {0, 1}));
}

TEST_F(numpy_files, are_refused_with_the_reason) {
  write("x_train.npy", npy("<f4", "2, 3", std::vector<float>(6)));
  write("x_test.npy", npy("<f4", "2, 4", std::vector<float>(8)));
  write("y_train.npy", npy("<i4", "2", std::vector<std::int32_t>{0, 1 << 30}));
  write("none.npy", npy("<f4", "0, 3", std::vector<float>{}));
  EXPECT_THAT(why({}), HasSubstr("y_train.npy: the label at index 1 is not a class number"));
  EXPECT_THAT(why({{"labels", ""}}),
              HasSubstr("x_test.npy: its rows (4 of float32) or the type of its numbers differ from those of"));
  EXPECT_THAT(why({{"labels", ""}, {"ids", true}}),
              HasSubstr("ids are integers, not floats (float32): save array.astype(numpy.int32)"));
  EXPECT_THAT(why({{"data", "none"}}), HasSubstr("none.npy: it has no numbers"));
  EXPECT_THAT(why({{"data", "missing"}}), HasSubstr("missing.npy"));
  EXPECT_THAT(why({{"path", write("text.npz", "no zip")}}), HasSubstr("it is not a folder of .npy files, and no .npz file: "));
  ASSERT_EQ(::mkfifo(dir_.file("fifo.npz").c_str(), 0600), 0);
  EXPECT_THAT(why({{"path", dir_.file("fifo.npz")}}), HasSubstr("fifo.npz: not a regular file")) << "not a wait for a writer";
}

TEST_F(numpy_files, of_npz_are_refused_when_they_need_more_memory_than_allowed) {
  npz({{"x_train", npy("|u1", "2, 1048576", std::vector<std::uint8_t>(2 << 20))}}, dir_.file("big.npz"));
  const numpy_options allowed{{"path", dir_.file("big.npz")}, {"labels", ""}, {"test_data", ""}, {"memory_mib", std::int64_t{3}}};
  EXPECT_EQ(open(allowed)->size(split::train), 2);
  auto small = allowed;
  small["memory_mib"] = std::int64_t{2};
  EXPECT_THAT(why(small), HasSubstr("array 'x_train' takes more memory than memory_mib allows (2 MiB): unpack the file"));
}

TEST_F(numpy_files, of_npz_share_the_allowed_memory_with_labels_and_the_list_of_examples) {
  npz({{"x_train", npy("|u1", "10, 104857", std::vector<std::uint8_t>(1048570))},
       {"x_test", npy("|u1", "10, 104857", std::vector<std::uint8_t>(1048570))},
       {"rows", npy("|u1", "1000000", std::vector<std::uint8_t>(1000000))},
       {"one_row", npy("|u1", "10, 100000", std::vector<std::uint8_t>(1000000))}},
      dir_.file("all.npz"));
  const auto with = [&](const char* data, const char* labels, const char* test, std::int64_t mib) {
    return numpy_options{{"path", dir_.file("all.npz")},       {"data", std::string(data)},      {"labels", std::string(labels)},
                         {"test_labels", std::string(labels)}, {"test_data", std::string(test)}, {"memory_mib", mib}};
  };
  EXPECT_EQ(open(with("x_train", "", "x_test", 3))->size(split::test), 10);
  EXPECT_THAT(why(with("x_train", "", "x_test", 2)), HasSubstr("array 'x_test' takes more memory than memory_mib allows"));
  EXPECT_EQ(open(with("rows", "", "", 9))->size(split::train), 1000000);  // 8 bytes for each example
  EXPECT_THAT(why(with("rows", "", "", 8)), HasSubstr("rows: 1000000 numbers need 7 MiB of memory, and memory_mib leaves 7 MiB"));
  EXPECT_EQ(open(with("x_train", "one_row", "", 6))->size(split::train), 10);  // 4 bytes for each label
  EXPECT_THAT(why(with("x_train", "one_row", "", 4)), HasSubstr("one_row: 1000000 numbers need 3 MiB of memory"));
}

TEST_F(numpy_files, of_npz_that_cannot_be_what_they_declare_are_refused_before_they_are_unpacked) {
  const std::string zeros(std::size_t{64} << 20, '\0');
  npz({{"x_train", zeros}}, dir_.file("bomb.npz"));
  const numpy_options bomb{{"path", dir_.file("bomb.npz")}, {"labels", ""}, {"test_data", ""}};
  EXPECT_THAT(why(bomb), HasSubstr("array 'x_train': it is no .npy file"));
  // The archive's directory declares 1,000 times as many bytes as its 64 MiB can be compressed to.
  std::ifstream in(dir_.file("bomb.npz"), std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(in), {});
  const auto directory = bytes.rfind(std::string("PK\1\2", 4), bytes.rfind("x_train.npy"));
  ASSERT_NE(directory, std::string::npos);
  const std::uint32_t declared = 0xf0000000;
  std::memcpy(bytes.data() + directory + 24, &declared, sizeof declared);
  auto lies = bomb;
  lies["path"] = write("lies.npz", bytes);
  EXPECT_THAT(why(lies), HasSubstr("array 'x_train': its 4026531840 bytes cannot come out of "));
}

TEST_F(numpy_files, of_npz_are_an_array_or_an_error_whatever_is_damaged) {
  const auto sound = npz({{"x_train", npy("<f4", "20, 3", std::vector<float>(60, 1.5f))},
                          {"y_train", npy("<i4", "20", std::vector<std::int32_t>(20))}},
                         dir_.file("sound.npz"));
  std::mt19937_64 draw(5);
  int arrays = 0, errors = 0;
  for (int i = 0; i < 2000; ++i) {
    auto damaged = sound;
    for (int n = 1 + i % 4; n > 0; --n) damaged[draw() % damaged.size()] = static_cast<char>(draw());
    if (i % 5 == 0) damaged.resize(draw() % damaged.size());
    const auto a = open_numpy(write("damaged.npz", damaged), "x_train", 1 << 20);
    if (!a) {
      ASSERT_NE(a.error().text, "");
      ++errors;
      continue;
    }
    ++arrays;
    for (std::int64_t r = 0; r < a->rows(); ++r)
      ASSERT_EQ(a->numbers(r * a->row_count(), a->row_count()).size(), static_cast<std::size_t>(a->row_count()));
  }
  EXPECT_GT(arrays, 100);
  EXPECT_GT(errors, 100);
}

}  // namespace
}  // namespace troupe
