// Files that cannot be written to the requested path: one second folder per job, with the newest
// file of each name.
#include "runtime/record/second_place.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;

class second_places : public testing::Test {
 protected:
  second_places() { ::setenv("TMPDIR", tmp_.path.c_str(), 1); }
  ~second_places() override { was_.empty() ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", was_.c_str(), 1); }

  // Writes like a checkpoint: to a temporary name first. Fails if `text` is empty.
  static file_writer writes(const std::string& text) {
    return [text](const std::string& path) -> expected<void, record_error> {
      if (text.empty() || path.starts_with("/full/")) return unexpected(record_error{path, {}, "no space left"});
      std::ofstream(path + ".new") << text;
      fs::rename(path + ".new", path);
      return {};
    };
  }
  static std::string read(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::vector<fs::path> folders() const { return {fs::directory_iterator(tmp_.path), fs::directory_iterator()}; }

  test::temp_dir tmp_;
  const std::string was_ = std::getenv("TMPDIR") ? std::getenv("TMPDIR") : "";
};

TEST_F(second_places, one_folder_per_job_holds_the_newest_file) {
  second_place place;
  kept_file last;
  for (int i = 0; i < 39; ++i) last = write_or_elsewhere(place, "/full/a.checkpoint", writes("checkpoint " + std::to_string(i)));
  const auto weights = write_or_elsewhere(place, "/full/a.weights", writes("weights"));
  ASSERT_TRUE(last.trouble && weights.trouble);
  EXPECT_NE(last.trouble->to_string().find("no space left; it is in " + last.path + " instead"), std::string::npos);
  ASSERT_EQ(folders().size(), 1u);
  EXPECT_EQ(read(last.path), "checkpoint 38");
  EXPECT_EQ(read(weights.path), "weights");
  struct stat s {};
  ASSERT_EQ(::stat(folders()[0].c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 077, 0u);
  second_place other;
  write_or_elsewhere(other, "/full/a.checkpoint", writes("of another job"));
  EXPECT_EQ(folders().size(), 2u);
  EXPECT_EQ(read(last.path), "checkpoint 38");
}

TEST_F(second_places, keeps_the_older_file_if_the_newer_cannot_be_written_there) {
  second_place place;
  EXPECT_EQ(write_or_elsewhere(place, "/full/a", writes("")).path, "");
  EXPECT_TRUE(folders().empty()) << "an empty folder remains";
  const auto first = write_or_elsewhere(place, "/full/a", writes("first"));
  EXPECT_EQ(write_or_elsewhere(place, "/full/a", writes("")).path, "");
  EXPECT_EQ(read(first.path), "first");
}

// Other users can write to /tmp, and /tmp may be cleared.
TEST_F(second_places, makes_a_new_folder_if_the_old_one_is_gone_or_not_private) {
  second_place place;
  const auto first = write_or_elsewhere(place, "/full/a", writes("first"));
  fs::remove_all(place);
  fs::create_directory_symlink("/tmp", place);
  const auto second = write_or_elsewhere(place, "/full/a", writes("second"));
  EXPECT_NE(fs::path(second.path).parent_path(), fs::path(first.path).parent_path());
  fs::permissions(place, fs::perms::all);
  const auto third = write_or_elsewhere(place, "/full/a", writes("third"));
  EXPECT_NE(fs::path(third.path).parent_path(), fs::path(second.path).parent_path());
  EXPECT_EQ(read(third.path), "third");
}

// --- checkpoints

class second_checkpoints : public second_places {
 protected:
  second_checkpoints() { fs::create_directories(folder_); }
  static checkpoint at_step(std::uint64_t step) {
    checkpoint c;
    c.job = "tiny";
    c.step = step;
    c.numerics = "any";
    return c;
  }
  // A folder at the path of the temporary file stands in for a full disk.
  void fill_disk_for(const std::string& file) { fs::create_directories(folder_ + "/" + file + ".tmp/taken"); }
  kept_file save(std::uint64_t step) { return save_checkpoint_or_elsewhere(place_, folder_, "tiny.checkpoint", at_step(step), 2); }
  std::uint64_t newest() const {
    const auto found = load_newest_checkpoint(folder_);
    return found.newest ? found.newest->step : 0;
  }

  const std::string folder_ = tmp_.path + "/checkpoints";
  second_place place_;
};

TEST_F(second_checkpoints, a_checkpoint_in_the_second_place_is_the_newest_of_its_folder) {
  EXPECT_FALSE(save(10).trouble);
  fill_disk_for("checkpoint-000002-step-20.safetensors");
  const auto second = save(20);
  ASSERT_TRUE(second.trouble);
  EXPECT_NE(second.trouble->message.find(place_ + "/tiny.checkpoint instead"), std::string::npos) << second.trouble->message;
  EXPECT_EQ(second.path, folder_ + "/checkpoint-000002-step-20.safetensors");
  EXPECT_EQ(newest(), 20u);
  fill_disk_for("checkpoint-000003-step-30.safetensors");
  save(30);
  EXPECT_EQ(newest(), 30u);
  EXPECT_EQ(checkpoint_files(folder_).size(), 2u) << "one link to the second place, whose file was replaced";
  EXPECT_FALSE(save(40).trouble);
  EXPECT_EQ(newest(), 40u);
}

TEST_F(second_checkpoints, a_checkpoint_whose_second_place_is_gone_is_skipped_and_not_counted) {
  save(10);
  fill_disk_for("checkpoint-000002-step-20.safetensors");
  save(20);
  fs::remove_all(place_);
  EXPECT_EQ(newest(), 10u);
  save(20);
  EXPECT_EQ(newest(), 20u);
  EXPECT_EQ(checkpoint_files(folder_).size(), 2u) << "the file of step 10 stays";
}

TEST_F(second_checkpoints, a_checkpoint_that_another_user_may_have_put_there_is_skipped) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to give a file away";
  save(10);
  fill_disk_for("checkpoint-000002-step-20.safetensors");
  save(20);
  ASSERT_EQ(::chown((place_ + "/tiny.checkpoint").c_str(), 65534, 65534), 0);
  EXPECT_EQ(newest(), 10u);
}

}  // namespace
}  // namespace troupe
