// What a written file may replace: a regular file, or nothing. All writers of files use these
// functions.
#include "runtime/data/file_place.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "ops/device.hpp"
#include "runtime/record/checkpoint.hpp"
#include "runtime/record/file_io.hpp"
#include "tests/error_text.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using test::temp_dir;
using ::testing::HasSubstr;

struct places : testing::Test {
  temp_dir dir;
  std::string fifo = dir.file("fifo"), device = dir.file("device"), file = dir.file("file"), link = dir.file("link");
  places() {
    ::mkfifo(fifo.c_str(), 0600);
    fs::create_symlink("/dev/null", device);
    test::write_bytes(file, {'o', 'l', 'd'});
    fs::create_symlink("file", link);
  }
  static std::string write(const std::string& path) { return test::error_text(write_file_atomically(path, {{"new", 3}})); }
  static std::string text(const std::string& path) {
    const auto b = test::read_bytes(path);
    return {b.begin(), b.end()};
  }
};

TEST_F(places, regular_files_and_new_names_are_allowed) {
  EXPECT_EQ(*place_to_write(file), file);
  EXPECT_EQ(*place_to_write(dir.file("fresh")), dir.file("fresh"));
  EXPECT_EQ(*place_to_write(link), fs::canonical(file).string());
  EXPECT_EQ(write(file), "");
  EXPECT_EQ(text(file), "new");
}

TEST_F(places, other_kinds_are_rejected_and_left_unchanged) {
  EXPECT_EQ(write(fifo), "it is a FIFO, and only regular files are written");
  EXPECT_EQ(write(device), "it is a symbolic link, and it is a device, and only regular files are written");
  EXPECT_EQ(place_to_write("/dev/null").error().text, "it is a device, and only regular files are written");
  EXPECT_EQ(write(dir.path), "it is a folder");
  sockaddr_un a{};
  a.sun_family = AF_UNIX;
  const auto name = dir.file("s");
  std::strncpy(a.sun_path, name.c_str(), sizeof a.sun_path - 1);
  const int s = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(s, reinterpret_cast<const sockaddr*>(&a), sizeof a), 0);
  EXPECT_EQ(write(name), "it is a socket, and only regular files are written");
  ::close(s);
  struct stat st {};
  EXPECT_TRUE(::lstat(fifo.c_str(), &st) == 0 && S_ISFIFO(st.st_mode));
  EXPECT_TRUE(fs::is_symlink(device));
}

TEST_F(places, writing_to_a_link_replaces_its_target) {
  EXPECT_EQ(write(link), "");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(text(file), "new");
  fs::remove(file);
  EXPECT_THAT(write(link), HasSubstr("it is a symbolic link that cannot be resolved"));
  fs::create_symlink("round", dir.file("round"));
  EXPECT_THAT(write(dir.file("round")), HasSubstr("it is a symbolic link that cannot be resolved"));
}

// An irregular file at the temporary name is kept, and opening does not wait for a FIFO's reader.
TEST_F(places, rejects_an_irregular_temporary_file) {
  ::mkfifo((file + ".tmp").c_str(), 0600);
  EXPECT_EQ(write(file), file + ".tmp: it is a FIFO, and only regular files are written");
  EXPECT_EQ(text(file), "old");
  EXPECT_THAT(open_to_write(fifo).error().text, HasSubstr("cannot create"));
}

TEST_F(places, checkpoints_follow_the_same_rules) {
  checkpoint c;
  const auto dev = make_cpu_device();
  c.named.emplace_back("w", tensor::allocate(*dev, {3}, dtype::f32));
  dev->fill(1.0, c.named[0].second);
  EXPECT_EQ(test::error_text(write_checkpoint(fifo, c)), fifo + ": it is a FIFO, and only regular files are written");
  EXPECT_TRUE(write_checkpoint(link, c));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_TRUE(load_checkpoint(file).has_value());
}

}  // namespace
}  // namespace troupe
