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
