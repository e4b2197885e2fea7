// Who can read the files of runs, and how a process waits for those that another one has locked.
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "runtime/job/record.hpp"
#include "runtime/node/config/prepare_text.hpp"
#include "runtime/node/node_tables.hpp"
#include "runtime/node/runs/run_database.hpp"
#include "runtime/node/runs/run_files.hpp"
#include "runtime/node/runs/run_query.hpp"
#include "runtime/node/runs/run_recorder.hpp"
#include "tests/error_text.hpp"
#include "tests/node/job_fixture.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::HasSubstr;

mode_t rights_of(const fs::path& path) {
  struct stat st {};
  return ::stat(path.c_str(), &st) == 0 ? st.st_mode & 0777u : 0u;
}

class run_locks : public testing::Test {
 protected:
  static std::shared_ptr<prepared_job> job() {
    static const auto made =
        prepare_text({job_test::text_of(job_test::sound_lines()), "small.toml", {}}, std::make_shared<const tables>(node_tables()))
            .value();
    return made;
  }
  expected<std::unique_ptr<run_recorder>, record_error> new_run(const lock_patience& patience = {}) const {
    return run_recorder::create(runs_, job(), facts_of_run(*job(), "numerics"), "", patience);
  }
  std::vector<fs::path> run_folders_left() const { return run_folders(runs_); }

  test::temp_dir dir_;
  const fs::path runs_ = fs::path(dir_.file("runs"));
};

TEST_F(run_locks, other_users_cannot_enter_a_run_or_read_a_lock_whatever_the_umask_is) {
  for (const mode_t mask : {0u, 022u, 0777u}) {
    std::uint32_t number = 0;
    const auto runs = fs::path(dir_.file("mask" + std::to_string(mask)));
    const auto before = ::umask(mask);
    const auto made = new_numbered_folder(runs, "a", number);
    ::umask(before);
    ASSERT_TRUE(made) << test::error_text(made);
    EXPECT_EQ(rights_of(runs), 0700u) << mask;
    EXPECT_EQ(rights_of(made->path), 0700u) << mask;
    EXPECT_EQ(rights_of(runs / "lock"), 0600u) << mask;
    EXPECT_EQ(rights_of(run_lock_file(made->path)), 0600u) << mask;
  }
}

TEST_F(run_locks, the_files_of_a_run_are_for_its_user_alone) {
  const auto before = ::umask(0);
  const auto run = new_run();
  ::umask(before);
  ASSERT_TRUE(run) << test::error_text(run);
  EXPECT_EQ(rights_of((*run)->folder()), 0700u);
  for (const auto& file : {run_database_file(runs_), runs_ / "lock", run_lock_file((*run)->folder()),
                           run_metrics_file((*run)->folder()), (*run)->folder() / "events.jsonl"})
    EXPECT_EQ(rights_of(file), 0600u) << file;
}

TEST_F(run_locks, a_lock_file_of_an_older_version_loses_the_rights_of_other_users) {
  fs::create_directories(runs_);
  std::ofstream(runs_ / "lock") << "";
  fs::permissions(runs_ / "lock", fs::perms(0644));
  std::uint32_t number = 0;
  ASSERT_TRUE(new_numbered_folder(runs_, "a", number));
  EXPECT_EQ(rights_of(runs_ / "lock"), 0600u);
}

// The notice releases the lock: without it the test would not end.
TEST_F(run_locks, a_wait_for_the_next_number_names_the_file_and_the_process) {
  fs::create_directories(runs_);
  std::FILE* held = std::fopen((runs_ / "lock").c_str(), "w");
  ASSERT_EQ(::flock(::fileno(held), LOCK_EX | LOCK_NB), 0);
  std::vector<std::string> said;
  std::uint32_t number = 0;
  const auto made = new_numbered_folder(runs_, "a", number, {[&](const std::string& text) {
                                          said.push_back(text);
                                          ::flock(::fileno(held), LOCK_UN);
                                        }});
  std::fclose(held);
  ASSERT_TRUE(made) << test::error_text(made);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_THAT(said[0], HasSubstr((runs_ / "lock").string() + ": waiting for "));
  EXPECT_THAT(said[0], HasSubstr("process"));
}

TEST_F(run_locks, a_wait_for_the_database_names_the_file_and_ends_with_a_run) {
  ASSERT_TRUE(make_runs_folder(runs_));
  auto other = run_database::open(runs_).value();
  other->begin();
  std::vector<std::string> said;
  const auto run = new_run({[&](const std::string& text) {
    said.push_back(text);
    other.reset();
  }});
  ASSERT_TRUE(run) << test::error_text(run);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_THAT(said[0], HasSubstr(run_database_file(runs_).string() + ": waiting for "));
}

TEST_F(run_locks, a_database_that_stays_locked_is_an_error_and_leaves_no_run_folder) {
  ASSERT_TRUE(make_runs_folder(runs_));
  const auto other = run_database::open(runs_).value();
  other->begin();
  const auto run = new_run({{}, 30ms});
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().file, run_database_file(runs_).string());
  EXPECT_THAT(run.error().message, HasSubstr("keeps it locked; end that process, or try again later"));
  EXPECT_TRUE(run_folders_left().empty());
  const auto deleted = delete_run_rows(run_database_file(runs_), 1, {{}, 30ms});
  EXPECT_THAT(test::error_text(deleted), HasSubstr("keeps it locked"));
  other->commit();
  EXPECT_TRUE(new_run());
}

TEST_F(run_locks, a_run_that_cannot_be_begun_leaves_no_folder) {
  const auto first = new_run();
  ASSERT_TRUE(first) << test::error_text(first);
  const auto folder = (*first)->folder();
  auto info = facts_of_run(*job(), "numerics");
  info.number = 2;  // a folder without run.json is used again
  fs::create_directories(runs_ / "2-small" / "metrics.csv");
  const auto second = run_recorder::create(runs_, job(), info, "");
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().file, HasSubstr("metrics.csv"));
  EXPECT_EQ(run_folders_left(), std::vector<fs::path>{folder});
}

TEST_F(run_locks, a_resumed_run_is_unchanged_when_the_database_is_locked) {
  fs::path folder;
  {
    const auto run = new_run();
    ASSERT_TRUE(run) << test::error_text(run);
    folder = (*run)->folder();
  }
  const auto rows = fs::file_size(run_metrics_file(folder));
  std::ofstream(run_metrics_file(folder), std::ios::app) << "1,0,0,1,,,,\n";
  const auto info = read_run_info(folder).value();
  const auto other = run_database::open(runs_).value();
  other->begin();
  const auto again = run_recorder::resume(folder, job(), info, {{}, 30ms});
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().message, HasSubstr("keeps it locked"));
  EXPECT_GT(fs::file_size(run_metrics_file(folder)), rows);
  EXPECT_EQ(read_run_info(folder).value().resumed_at.size(), 0u);
}

}  // namespace
}  // namespace troupe
