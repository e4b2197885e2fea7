// Data that a process keeps for the next job that names it.
#include "runtime/job/opened_data.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace troupe {
namespace {

using namespace std::chrono_literals;

struct counted_source final : source {
  shape example() const override { return {1}; }
  std::int64_t classes() const override { return 2; }
  std::int64_t size(split) const override { return 10; }
  void read(split, const std::vector<std::int64_t>&, tensor&, tensor&) const override {}
};

class kept_data : public testing::Test {
 protected:
  kept_data() {
    write("one");
    type_.name = "counted";
    type_.open = [this](const options&, std::uint64_t) {
      ++opens_;
      return std::make_shared<const counted_source>();
    };
    type_.files = [](const options& o) { return std::vector<source_file>{{"path", o.text("path")}, {"labels", ""}}; };
    spec_.source = "counted";
    spec_.values.values["path"] = file_.string();
  }
  ~kept_data() override { std::filesystem::remove(file_); }
  void write(const std::string& text) const { std::ofstream(file_, std::ios::binary) << text; }
  std::shared_ptr<const source> open(std::uint64_t seed = 1) { return kept_.open(type_, spec_, seed); }

  const std::filesystem::path file_ = std::filesystem::temp_directory_path() / ("troupe-opened-data-" + std::to_string(::getpid()));
  source_type type_;
  data_spec spec_;
  opened_data kept_;
  opened_data::instant now_ = opened_data::instant{} + 1h;
  int opens_ = 0;
};

TEST_F(kept_data, is_opened_once_for_jobs_that_name_it_one_after_the_other) {
  const auto* first = open().get();
  EXPECT_EQ(open().get(), first);
  EXPECT_EQ(opens_, 1);
}

TEST_F(kept_data, is_opened_anew_when_the_file_or_the_job_differs) {
  open();
  write("another");
  open();
  EXPECT_EQ(opens_, 2) << "the file has changed";
  open(2);
  EXPECT_EQ(opens_, 3) << "another seed";
  spec_.validation = 0.5;
  open(2);
  EXPECT_EQ(opens_, 4) << "another validation split";
  spec_.values.values["path"] = file_.string() + ".missing";
  open(2);
  open(2);
  EXPECT_EQ(opens_, 6) << "what is not a file is not kept";
}

// As idx: "path" names a folder, in which the source finds its files.
TEST_F(kept_data, of_a_folder_is_opened_once_when_the_source_lists_its_files) {
  type_.files = [&](const options&) { return std::vector<source_file>{{"path", file_.parent_path().string()}}; };
  type_.listed = [&](const options&) { return std::vector<source_file>{{"path", file_.string()}}; };
  open();
  open();
  EXPECT_EQ(opens_, 1);
  write("another");
  open();
  EXPECT_EQ(opens_, 2) << "a file in the folder has changed";
  type_.listed = {};
  open();
  open();
  EXPECT_EQ(opens_, 4) << "without a list the folder is unknown";
}

TEST(kept_idx_data, is_opened_once) {
  const auto folder = std::filesystem::temp_directory_path() / ("troupe-opened-idx-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  for (const std::string split : {"train", "t10k"}) {
    std::ofstream(folder / (split + "-images-idx3-ubyte")) << std::string("\0\0\x8\3\0\0\0\1\0\0\0\1\0\0\0\1\7", 17);
    std::ofstream(folder / (split + "-labels-idx1-ubyte")) << std::string("\0\0\x8\1\0\0\0\1\1", 9);
  }
  source_registry stock;
  add_stock_sources(stock);
  data_spec spec;
  spec.source = "idx";
  const auto* idx = stock.find("idx");
  ASSERT_TRUE(idx);
  spec.values.values["path"] = folder.string();
  spec.values = check_options(spec.values, idx->specs);
  opened_data kept;
  const auto first = kept.open(*idx, spec, 1);
  EXPECT_EQ(kept.open(*idx, spec, 1), first);
  std::filesystem::remove_all(folder);
}

TEST_F(kept_data, of_a_source_that_does_not_list_its_files_is_opened_each_time) {
  type_.files = {};
  open();
  open();
  EXPECT_EQ(opens_, 2);
}

TEST_F(kept_data, is_given_up_a_minute_after_its_last_job) {
  auto job = open();
  kept_.release_unused(now_);
  kept_.release_unused(now_ += 1h);
  job.reset();
  kept_.release_unused(now_ += 10s);
  kept_.release_unused(now_ += 59s);
  open();
  EXPECT_EQ(opens_, 1) << "a job uses it again within the minute";
  kept_.release_unused(now_ += 10s);
  kept_.release_unused(now_ += 60s);
  open();
  EXPECT_EQ(opens_, 2);
}

}  // namespace
}  // namespace troupe
