// Datasets of HDF5 files: their numbers, and files that make the library crash or take all memory.
// Files that h5py itself writes are in tests/interop/data_files_test.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "runtime/node/formats/hdf5_dataset.hpp"
#include "runtime/node/formats/hdf5_library.hpp"
#include "tests/error_text.hpp"
#include "tests/node/untrusted_hdf5_files.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t one_mib = 1 << 20;

class hdf5_datasets : public testing::Test {
 protected:
  void SetUp() override {
    if (!hdf5::open_library()) GTEST_SKIP() << "libhdf5-103-1 is not installed";
  }
  std::string write(const std::string& name, const std::string& bytes) {
    test::write_bytes(dir_.file(name), {bytes.begin(), bytes.end()});
    return dir_.file(name);
  }
  // The file with byte `at` changed.
  std::string changed(std::string bytes, std::size_t at, char v) {
    bytes[at] = v;
    return write("changed.h5", bytes);
  }
  std::string why(const std::string& file) { return test::error_text(open_hdf5({file}, "data", one_mib)); }
  test::temp_dir dir_;
};

TEST_F(hdf5_datasets, have_the_numbers_of_one_file_or_several) {
  const auto one = write("a.h5", hdf5_test::contiguous());
  const auto a = open_hdf5({one, one}, "data", one_mib);
  ASSERT_TRUE(a) << test::error_text(a);
  EXPECT_EQ(a->rows(), 8);
  EXPECT_EQ(a->row_text(), "3x4");
  std::vector<double> wanted(96);
  std::iota(wanted.begin(), wanted.begin() + 48, 0);
  std::iota(wanted.begin() + 48, wanted.end(), 0);
  EXPECT_EQ(a->numbers(0, static_cast<std::int64_t>(wanted.size())), wanted);
  wanted.resize(48);
  const auto c = open_hdf5({write("c.h5", hdf5_test::latest())}, "data", one_mib);
  ASSERT_TRUE(c) << test::error_text(c);
  EXPECT_EQ(c->numbers(0, static_cast<std::int64_t>(wanted.size())), wanted);
}

TEST_F(hdf5_datasets, are_an_error_when_the_library_crashes) {
  ASSERT_EQ(why(write("a.h5", hdf5_test::contiguous())), "");
  const auto text = why(changed(hdf5_test::contiguous(), 928, 1));  // the library overflows its stack or follows a wild pointer
  EXPECT_THAT(text, HasSubstr("changed.h5: the process that read it was ended by signal"));
  EXPECT_THAT(text, HasSubstr("it is damaged, or made to attack the HDF5 library"));
}

TEST_F(hdf5_datasets, are_an_error_when_the_file_is_cut_short) {
  const auto sound = hdf5_test::contiguous();
  for (std::size_t bytes = 1; bytes < sound.size(); bytes += 97) EXPECT_NE(why(write("cut.h5", sound.substr(0, bytes))), "");
}

}  // namespace
}  // namespace troupe
