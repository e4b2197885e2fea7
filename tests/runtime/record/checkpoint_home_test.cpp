// Checkpoint folders that jobs name: runs do not collide, and the newest valid checkpoint is found.
#include "runtime/record/checkpoint_home.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <vector>

#include "ops/device.hpp"
#include "runtime/record/file_io.hpp"
#include "tests/error_text.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe {
namespace {

checkpoint kept_at(std::uint64_t step) {
  static const auto dev = make_cpu_device();
  checkpoint c;
  c.job = "lenet";
  c.step = step;
  auto t = tensor::allocate(*dev, shape{8}, dtype::f32);
  dev->fill(static_cast<double>(step), t);
  c.named = {{"conv1.weight", t}};
  return c;
}

// Sets the file's time to `second` seconds from now.
void written_at(const std::string& file, int second) {
  std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now() + std::chrono::seconds(second));
}

TEST(checkpoint_home, each_run_of_a_job_has_its_own_folder) {
  const test::temp_dir dir;
  const auto home = checkpoint_home(dir.path, "le net/../x");
  EXPECT_EQ(home, dir.path + "/le_net____x");
  EXPECT_TRUE(check_home(dir.path, "le net/../x"));
  EXPECT_TRUE(runs_of(home).empty()) << "the test folder was not removed";
  std::vector<std::string> made;
  for (int i = 0; i < 20; ++i) {
    auto one = new_run_folder(home);
    ASSERT_TRUE(one);
    made.push_back(*one);
  }
  std::sort(made.begin(), made.end());
  EXPECT_EQ(runs_of(home), made);
  EXPECT_EQ(std::unique(made.begin(), made.end()), made.end());
}

TEST(checkpoint_home, why_no_home_names_a_folder_that_cannot_be_written) {
  const test::temp_dir dir;
  std::ofstream(dir.path + "/file") << "x";
  const auto why = test::error_text(check_home(dir.path + "/file", "lenet"));
  EXPECT_NE(why.find(dir.path + "/file/lenet: cannot create"), std::string::npos) << why;
  EXPECT_FALSE(check_home("/proc", "lenet"));
}

TEST(checkpoint_home, newest_in_skips_and_reports_damaged_files) {
  const test::temp_dir dir;
  const auto home = checkpoint_home(dir.path, "lenet");
  EXPECT_FALSE(newest_in(runs_of(home)).newest);
  const auto first = new_run_folder(home).value(), second = new_run_folder(home).value();
  for (const std::uint64_t step : {10, 20}) ASSERT_EQ(test::error_text(save_checkpoint(first, kept_at(step))), "");
  ASSERT_EQ(test::error_text(save_checkpoint(second, kept_at(15))), "");
  const auto files = checkpoint_files(first);
  written_at(files[1], -30), written_at(files[0], -20);
  written_at(checkpoint_files(second)[0], -10);
  EXPECT_EQ(newest_in(runs_of(home)).newest->step, 15u) << "the newest is the one written last, whatever its step";
  std::fstream(checkpoint_files(second)[0], std::ios::in | std::ios::out | std::ios::binary).seekp(-3, std::ios::end).put('\x7f');
  written_at(checkpoint_files(second)[0], -10);
  const auto found = newest_in(runs_of(home));
  ASSERT_TRUE(found.newest);
  EXPECT_EQ(found.newest->step, 20u);
  ASSERT_EQ(found.refused.size(), 1u);
  EXPECT_EQ(found.refused[0].file, checkpoint_files(second)[0]);
  EXPECT_EQ(found.file, files[0]);
}

// The number of the file's pages in the page cache; -1 if it is unknown.
int pages_held(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY);
  struct stat st {};
  if (fd < 0 || ::fstat(fd, &st) != 0) return -1;
  const auto bytes = static_cast<std::size_t>(st.st_size);
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* at = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  ::close(fd);
  if (at == MAP_FAILED) return -1;
  std::vector<unsigned char> held((bytes + page - 1) / page);
  const int ok = ::mincore(at, bytes, held.data());
  ::munmap(at, bytes);
  if (ok != 0) return -1;
  return static_cast<int>(std::count_if(held.begin(), held.end(), [](unsigned char c) { return (c & 1) != 0; }));
}

// Verification must read the data on the disk, not the page cache.
TEST(checkpoint_home, forget_cached_drops_the_file_from_the_page_cache) {
  const test::temp_dir dir;
  const auto file = dir.path + "/bytes";
  const std::vector<char> bytes(4 << 20, 'x');
  ASSERT_EQ(test::error_text(write_file_atomically(file, {{bytes.data(), bytes.size()}})), "");
  ASSERT_GT(pages_held(file), 0) << "just written";
  forget_cached(file);
  const auto held = pages_held(file);
  if (held == 1024) GTEST_SKIP() << "the file system of " << dir.path << " is in memory";
  EXPECT_LT(held, 64);
}

}  // namespace
}  // namespace troupe
