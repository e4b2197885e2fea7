// Which job folders a node keeps in its state folder.
#include "runtime/node/executor/job_folders.hpp"

#include <fstream>
#include <set>

#include "runtime/node/executor/job_reading.hpp"
#include "runtime/record/checkpoint.hpp"
#include "runtime/record/job_owner.hpp"
#include "tests/cluster/processes.hpp"

namespace troupe::control {
namespace {

namespace fs = std::filesystem;

class job_folders : public testing::Test {
 protected:
  job_folders() {
    std::string name = (fs::temp_directory_path() / "troupe_folders_XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::runtime_error("cannot create a temporary folder");
    state_ = name;
  }
  ~job_folders() override {
    std::error_code ignored;
    fs::remove_all(state_, ignored);
  }
  // `age`: a larger number is a newer folder.
  fs::path put(const std::string& name, int age) {
    const auto folder = state_ / name;
    fs::create_directories(folder);
    std::ofstream(folder / "weights.safetensors") << "w";
    fs::last_write_time(folder, fs::file_time_type::clock::now() - std::chrono::hours(1000 - age));
    return folder;
  }
  std::set<std::string> left() const {
    std::set<std::string> names;
    for (const auto& e : fs::directory_iterator(state_)) names.insert(e.path().filename().string());
    return names;
  }
  fs::path state_;
};

TEST_F(job_folders, the_newest_folders_and_the_one_in_use_are_kept) {
  const auto in_use = put("job-1-oldest-9", 1);
  for (int i = 2; i <= 9; ++i) put("job-" + std::to_string(i) + "-tiny-9", i);
  EXPECT_EQ(remove_old_job_folders(state_, in_use, 3), 5u);
  EXPECT_EQ(left(), (std::set<std::string>{"job-1-oldest-9", "job-7-tiny-9", "job-8-tiny-9", "job-9-tiny-9"}));
  EXPECT_EQ(remove_old_job_folders(state_, in_use, 3), 0u);
}

TEST_F(job_folders, jobs_of_one_owner_do_not_displace_folders_of_another) {
  const auto owned = [&](const std::string& name, int age, const std::string& owner) {
    const auto folder = put(name, age);
    EXPECT_TRUE(set_owner(folder, owner));
    fs::last_write_time(folder, fs::file_time_type::clock::now() - std::chrono::hours(1000 - age));
  };
  owned("job-1-tiny-9", 1, "alice");
  put("job-2-tiny-9", 2);  // of an unknown owner
  for (int i = 3; i <= 9; ++i) owned("job-" + std::to_string(i) + "-tiny-9", i, "bob");
  EXPECT_EQ(remove_old_job_folders(state_, {}, 4), 5u);
  EXPECT_EQ(left(), (std::set<std::string>{"job-1-tiny-9", "job-2-tiny-9", "job-8-tiny-9", "job-9-tiny-9"}));
}

TEST_F(job_folders, folders_without_an_owner_get_the_one_that_the_journal_knows) {
  const auto done = put("job-1-tiny-9", 1), runs = put("job-2-tiny-9", 2), unknown = put("job-3-tiny-9", 3);
  const auto hers = put("job-4-tiny-9", 4);
  ASSERT_TRUE(set_owner(hers, "alice"));
  const auto run = put("runs/1-tiny", 1), other_run = put("runs/3-tiny", 1);
  for (const auto& r : {run, other_run}) std::ofstream(r / "run.json") << "{}";
  journal_content found;
  finished_job f;
  f.number = 1, f.owner = "alice", f.weights = (done / "weights.safetensors").string();
  found.finished.push_back(f);
  f.number = 4, f.owner = "bob", f.weights = (hers / "weights.safetensors").string();
  found.finished.push_back(f);
  f.number = 5, f.weights = (state_ / "job-5-gone-9/weights.safetensors").string();
  found.finished.push_back(f);
  unfinished_job u;
  u.number = 2, u.owner = "bob", u.kept = (runs / "weights.safetensors").string();
  found.jobs.push_back(u);
  give_known_owners(state_, found);
  EXPECT_EQ(owner_of_folder(done), "alice");
  EXPECT_EQ(owner_of_folder(run), "alice");
  EXPECT_EQ(owner_of_folder(runs), "bob");
  EXPECT_EQ(owner_of_folder(unknown), "");
  EXPECT_EQ(owner_of_folder(other_run), "");
  EXPECT_EQ(owner_of_folder(hers), "alice") << "a known owner is not replaced";
  EXPECT_FALSE(fs::exists(state_ / "job-5-gone-9"));
}

TEST_F(job_folders, other_entries_of_the_state_folder_are_not_removed) {
  for (const std::string name : {"given", "job-", "job-x-tiny-9", "job-1-tiny", "job-1-tiny-x", "my-job-1-tiny-9", "job-1"})
    put(name, 1);
  std::ofstream(state_ / "job-2-file-9") << "a file";
  std::ofstream(state_ / "incarnation") << "1";
  const auto outside = put("kept", 1);
  fs::create_directory_symlink(outside, state_ / "job-3-link-9");
  const auto before = left();
  EXPECT_EQ(remove_old_job_folders(state_, {}, 0), 0u);
  EXPECT_EQ(left(), before);
  EXPECT_EQ(remove_old_job_folders(state_ / "not there", {}, 0), 0u);
}

// A checkpoint that did not fit into the folder is in a second place; the folder has a link to it.
class restored_checkpoints : public job_folders {
 protected:
  void write(const fs::path& file, std::uint64_t step) {
    checkpoint c;
    c.job = "tiny", c.numerics = "any", c.step = step;
    const auto written = write_checkpoint(file.string(), c);
    EXPECT_TRUE(written) << written.error().to_string();
  }
  // The step of the checkpoint with which a restarted daemon continues the job.
  std::uint64_t taken_up(const std::string& kept) {
    const cluster_spec cluster;
    const job_place at{cluster, "n1", "any", nullptr, state_};
    unfinished_job j;
    j.number = 7;
    j.kept = kept;
    take_up_given(at, {j});
    const auto read = load_checkpoint(given_path(at, 7).string());
    return read ? read->step : 0;
  }
};

TEST_F(restored_checkpoints, are_found_in_the_second_place_and_in_the_folder_when_that_is_gone) {
  const auto folder = put("job-7-tiny-9", 1), second = put("second", 1) / "tiny.checkpoint.safetensors";
  write(folder / "checkpoint-000001-step-10.safetensors", 10);
  write(second, 20);
  const auto link = link_checkpoint(folder.string(), second.string(), 20);
  ASSERT_TRUE(link) << link.error().to_string();
  EXPECT_EQ(taken_up(*link), 20u);
  fs::remove(second);
  EXPECT_EQ(taken_up(*link), 10u);
}

TEST(job_folder_names, are_recognised_for_any_job_name) {
  EXPECT_EQ(job_folder_name(7u << 16 | 12, "my job/../x"), "job-12-my_job____x-7");
  for (const std::string name : {"tiny", "", "-", "a-b-9", "../../etc"})
    EXPECT_TRUE(is_job_folder_name(job_folder_name(7u << 16 | 12, name))) << name;
}

}  // namespace
}  // namespace troupe::control

namespace troupe::testing_cluster {
namespace {

namespace fs = std::filesystem;

class cluster_job_folders : public cluster_test {
 protected:
  std::size_t count() const {
    std::size_t n = 0;
    for (const auto& e : fs::directory_iterator(folder_ / "state/n1"))
      n += control::is_job_folder_name(e.path().filename().string()) ? 1 : 0;
    return n;
  }
};

TEST_F(cluster_job_folders, a_daemon_removes_the_oldest_folders_at_start_and_after_each_job) {
  make_cluster(1);
  for (int i = 1; i <= 70; ++i) {
    const auto folder = folder_ / "state/n1" / ("job-" + std::to_string(i) + "-before-3");
    fs::create_directories(folder);
    fs::last_write_time(folder, fs::file_time_type::clock::now() - std::chrono::hours(1000 - i));
  }
  start("n1");
  ASSERT_TRUE(daemon("n1").wait_log("removed the folders of 6 jobs that are over; the newest 64 stay", 10s));
  EXPECT_EQ(count(), control::keep_job_folders);
  EXPECT_FALSE(fs::exists(folder_ / "state/n1/job-6-before-3"));
  EXPECT_TRUE(fs::exists(folder_ / "state/n1/job-7-before-3"));
  ASSERT_EQ(run(tiny_job()).outcome.exit_code(), 0);
  ASSERT_TRUE(daemon("n1").wait_log("removed the folders of 1 jobs", 10s));
  EXPECT_EQ(count(), control::keep_job_folders);
  EXPECT_FALSE(fs::exists(folder_ / "state/n1/job-7-before-3"));
}

}  // namespace
}  // namespace troupe::testing_cluster
