// Owners of folders that are kept for jobs, and which of them are removed first.
#include "runtime/record/job_owner.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "tests/error_text.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using test::temp_dir;

TEST(job_owner, a_folder_belongs_to_the_first_owner_that_claims_it) {
  const temp_dir dir;
  const auto folder = fs::path(dir.path) / "a/job-1";
  EXPECT_EQ(owner_of_folder(folder), "") << "there is no such folder";
  ASSERT_TRUE(claim_folder(folder, "alice"));
  EXPECT_EQ(owner_of_folder(folder), "alice");
  std::ofstream(folder / "weights.safetensors") << "w";
  EXPECT_TRUE(claim_folder(folder, "alice")) << "it is hers already";
  const auto no = claim_folder(folder, "bob");
  ASSERT_FALSE(no);
  EXPECT_NE(no.error().message.find("belongs to alice"), std::string::npos) << no.error().to_string();
  EXPECT_EQ(owner_of_folder(folder), "alice");
}

TEST(job_owner, a_folder_with_files_and_no_owner_cannot_be_claimed) {
  const temp_dir dir;
  const auto folder = fs::path(dir.path) / "old";
  fs::create_directories(folder);
  std::ofstream(folder / "checkpoint-000001-step-1.safetensors") << "c";
  EXPECT_FALSE(claim_folder(folder, "bob"));
  EXPECT_EQ(owner_of_folder(folder), "");
  ASSERT_TRUE(set_owner(folder, "alice"));
  EXPECT_EQ(owner_of_folder(folder), "alice");
}

TEST(job_owner, a_file_that_holds_no_name_names_no_owner) {
  const temp_dir dir;
  const auto file = fs::path(dir.path) / job_owner_file;
  for (const std::string text : {"", "\n", "alice bob\n", "alice\nbob\n", "../alice\n",
                                 "al\xc3\xaf"
                                 "ce\n"}) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
    EXPECT_EQ(owner_of_folder(dir.path), "") << text;
  }
  std::ofstream(file, std::ios::trunc) << std::string(5000, 'a');
  EXPECT_EQ(owner_of_folder(dir.path), "");
  for (const std::string text : {"alice", "alice\n"}) {  // an admin may write it by hand
    std::ofstream(file, std::ios::trunc) << text;
    EXPECT_EQ(owner_of_folder(dir.path), "alice");
  }
  fs::rename(file, fs::path(dir.path) / "elsewhere");
  fs::create_symlink(fs::path(dir.path) / "elsewhere", file);
  EXPECT_EQ(owner_of_folder(dir.path), "") << "a link is no owner";
}

TEST(job_owner, paths_in_an_owned_folder_are_found_at_any_depth) {
  const temp_dir dir;
  const fs::path home(dir.path);
  ASSERT_TRUE(claim_folder(home / "tiny/lab-1-7", "alice"));
  EXPECT_TRUE(is_in_owned_folder(home / "tiny/lab-1-7"));
  EXPECT_TRUE(is_in_owned_folder(home / "tiny/lab-1-7/checkpoint.safetensors"));
  EXPECT_TRUE(is_in_owned_folder(home / "tiny/lab-1-7/recording/plan-0/begins-with.safetensors"));
  EXPECT_FALSE(is_in_owned_folder(home / "tiny"));
  EXPECT_FALSE(is_in_owned_folder(home / "tiny/rows.csv"));
}

// An owner with at most an equal share never loses anything, and an owner's newest stay.
TEST(job_owner, surplus_leaves_each_owner_its_newest_up_to_an_equal_share) {
  std::mt19937 rng(7);
  for (int round = 0; round < 300; ++round) {
    const auto keep = rng() % 12;
    std::vector<std::string> owners(rng() % 30);
    for (auto& o : owners) o = std::string(1, static_cast<char>('a' + rng() % (1 + rng() % 4)));
    const auto gone = surplus(owners, keep);
    ASSERT_EQ(gone.size(), owners.size() > keep ? owners.size() - keep : 0);
    const std::set<std::size_t> removed(gone.begin(), gone.end());
    ASSERT_EQ(removed.size(), gone.size());
    std::map<std::string, std::size_t> all, left;
    std::set<std::string> loses;
    for (std::size_t i = 0; i < owners.size(); ++i) {
      ++all[owners[i]];
      if (removed.contains(i)) {
        loses.insert(owners[i]);
      } else {
        EXPECT_FALSE(loses.contains(owners[i])) << "a newer one was removed before an older one";
        ++left[owners[i]];
      }
    }
    for (const auto& [owner, n] : all)
      EXPECT_GE(left[owner], std::min(n, keep / all.size())) << owner << " keeps its share of " << keep;
  }
}

TEST(job_owner, surplus_of_one_owner_is_the_oldest) {
  EXPECT_EQ(surplus({"a", "a", "a", "a"}, 2), (std::vector<std::size_t>{2, 3}));
  EXPECT_EQ(surplus({"b", "b", "b", "a"}, 2), (std::vector<std::size_t>{1, 2})) << "the only one of a stays";
}

}  // namespace
}  // namespace troupe
