// With which best evaluation a job on a cluster begins.
#include "runtime/node/executor/job_runs.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "runtime/coordinator/handover.hpp"
#include "runtime/job/record.hpp"
#include "runtime/node/runs/run_info.hpp"
#include "runtime/record/job_owner.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe::control {
namespace {

namespace fs = std::filesystem;

class job_runs_best : public testing::Test {
 protected:
  job_runs_best() {
    job_.spec.name = "tiny";
    job_.first_step = 150;
    job_.before = std::make_shared<handover>();
    job_.before->best = best_evaluation{100, 0.5, 1};  // of the checkpoint
  }
  // The run of job 3, with best weights of `step`.
  void make_run(std::uint64_t step) {
    const auto folder = fs::path(dir_.path) / "runs" / "3-tiny";
    fs::create_directories(folder);
    run_info r;
    r.number = 3, r.name = "tiny", r.state = "stopped";
    ASSERT_TRUE(set_owner(folder, "alice"));
    std::ofstream(run_info_file(folder)) << run_info_text(r);
    ASSERT_TRUE(write_safetensors((folder / "best.safetensors").string(), {}, weights_metadata(job_, step)));
  }
  bool keeps_best(bool another) {
    job_runs(dir_.path, [](const std::string&) {}).continue_best(3, "alice", job_, another);
    return job_.before->best.has_value();
  }

  test::temp_dir dir_;
  prepared_job job_;
};

TEST_F(job_runs_best, is_none_when_a_client_gives_a_checkpoint_of_another_run) { EXPECT_FALSE(keeps_best(true)); }

TEST_F(job_runs_best, stays_when_another_node_began_the_job) { EXPECT_TRUE(keeps_best(false)); }

TEST_F(job_runs_best, stays_when_a_restarted_daemon_has_its_weights) {
  make_run(100);
  EXPECT_TRUE(keeps_best(false));
  EXPECT_TRUE(keeps_best(true)) << "no checkpoint yet: the job begins again in its folder";
}

TEST_F(job_runs_best, is_none_when_its_weights_were_replaced) {
  make_run(200);
  EXPECT_FALSE(keeps_best(false));
}

}  // namespace
}  // namespace troupe::control
