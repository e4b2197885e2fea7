// The best evaluation, and the files, of a run that continues in its folder.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "runtime/coordinator/handover.hpp"
#include "runtime/job/record.hpp"
#include "runtime/node/config/prepare_text.hpp"
#include "runtime/node/node_tables.hpp"
#include "runtime/node/runs/run_files.hpp"
#include "runtime/node/runs/run_recorder.hpp"
#include "tests/error_text.hpp"
#include "tests/node/job_fixture.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;

// A run that was killed, and continues at step 150.
class runs_resume : public testing::Test {
 protected:
  runs_resume() {
    EXPECT_TRUE(made_) << test::error_text(made_);
    job_ = made_.value();
    auto run = run_recorder::create(runs_, job_, facts_of_run(*job_, "numerics"), "");
    EXPECT_TRUE(run) << test::error_text(run);
    folder_ = (*run)->folder();
    run->reset();
    info_ = read_run_info(folder_).value();
    job_->first_step = 150;
    job_->before = std::make_shared<handover>();
  }

  void evaluations(const std::vector<best_evaluation>& all) const {
    std::ofstream out(run_metrics_file(folder_));
    out << metrics_header << "\n";
    for (const auto& e : all)
      out << metrics_row(e.step, 0, 0, {std::nan(""), e.accuracy.value(), std::nan(""), std::nan(""), e.loss}) << "\n";
  }
  void weights_of(std::uint64_t step, const std::string& file = "best.safetensors") const {
    EXPECT_TRUE(write_safetensors((folder_ / file).string(), {}, weights_metadata(*job_, step)));
  }
  // Of kept_best(); 0: none.
  std::uint64_t kept() const {
    const auto best = kept_best(folder_, info_, *job_);
    return best ? best->step : 0;
  }
  // Continues as `troupe resume` does. Returns what run.json then says.
  run_info resumed() {
    continue_best(folder_, info_, *job_);
    const auto run = run_recorder::resume(folder_, job_, info_);
    EXPECT_TRUE(run) << test::error_text(run);
    return read_run_info(folder_).value();
  }

  test::temp_dir dir_;
  const fs::path runs_ = fs::path(dir_.file("runs"));
  const expected<std::shared_ptr<prepared_job>, diagnostics> made_ =
      prepare_text({job_test::text_of(job_test::sound_lines()), "small.toml", {}}, std::make_shared<const tables>(node_tables()));
  std::shared_ptr<prepared_job> job_;
  fs::path folder_;
  run_info info_;
};

const best_evaluation at_100{100, 0.5, 1}, at_200{200, 0.75, 0.5};

TEST_F(runs_resume, keeps_the_best_evaluation_that_the_checkpoint_knows_when_metrics_lost_its_row) {
  weights_of(100);
  evaluations({{50, 0.25, 2}});
  job_->before->best = at_100;
  const auto r = resumed();
  EXPECT_EQ(r.best_step, 100u);
  EXPECT_EQ(r.best_accuracy, 0.5);
  EXPECT_EQ(r.accuracy, 0.25) << "of the last row";
  EXPECT_TRUE(fs::exists(folder_ / "best.safetensors"));
}

TEST_F(runs_resume, keeps_the_best_evaluation_that_run_json_or_metrics_know) {
  weights_of(100);
  EXPECT_EQ(kept(), 0u);
  set_best(info_, at_100);
  EXPECT_EQ(kept(), 100u);
  set_best(info_, at_200);
  EXPECT_EQ(kept(), 0u);
  evaluations({at_100, at_200});
  EXPECT_EQ(kept(), 100u) << "a later row is better, but its step is repeated";
  continue_best(folder_, info_, *job_);
  ASSERT_TRUE(job_->before->best);
  EXPECT_EQ(job_->before->best->step, 100u) << "the job compares with the weights that there are";
}

TEST_F(runs_resume, forgets_a_best_evaluation_of_a_later_step_when_there_are_no_metrics) {
  fs::remove(run_metrics_file(folder_));
  set_best(info_, at_200);
  weights_of(200);
  const auto r = resumed();
  EXPECT_EQ(r.best_step, 0u);
  EXPECT_EQ(r.best_accuracy, -1);
  EXPECT_FALSE(fs::exists(folder_ / "best.safetensors"));
}

// The process was killed after it had stored the weights of step 200.
TEST_F(runs_resume, stores_weights_again_when_those_of_the_best_evaluation_were_replaced) {
  evaluations({at_100, at_200});
  job_->before->best = at_100;
  set_best(info_, at_200);
  weights_of(200);
  const auto r = resumed();
  EXPECT_FALSE(fs::exists(folder_ / "best.safetensors")) << "they are not of this run any more";
  EXPECT_FALSE(job_->before->best) << "the next evaluation is stored";
  EXPECT_FALSE(best_of(r)) << "so run.json names it, too";
}

TEST_F(runs_resume, removes_the_final_weights_of_the_end_that_it_extends) {
  weights_of(150, "last.safetensors");
  fs::create_hard_link(folder_ / "last.safetensors", folder_ / "best.safetensors");  // there was no evaluation
  resumed();
  EXPECT_FALSE(fs::exists(folder_ / "last.safetensors"));
  EXPECT_FALSE(fs::exists(folder_ / "best.safetensors"));
}

// A job on a cluster that went back, and ended before it had repeated a step.
TEST_F(runs_resume, of_a_job_that_went_back_has_no_step_that_did_not_happen) {
  auto run = run_recorder::create(runs_, made_.value(), facts_of_run(*made_.value(), "numerics"), "");
  ASSERT_TRUE(run) << test::error_text(run);
  const auto folder = (*run)->folder();
  for (std::uint64_t s = 151; s <= 160; ++s) {
    (*run)->event({s, step_event{.loss = 1.0 / static_cast<double>(s - 150)}});
    if (s % 4 == 0) (*run)->event({s, eval_event{.accuracy = static_cast<double>(s - 150) / 20, .loss = 1}});
  }
  (*run)->event({154, recovered_event{.message = "n2 is lost"}});
  run_recorder::end how;
  how.state = "stopped";
  how.step = 154;
  EXPECT_TRUE((*run)->finish(how));
  const auto r = read_run_info(folder).value();
  EXPECT_EQ(r.steps, 154u);
  EXPECT_EQ(r.best_step, 152u) << "not 160, which was better";
  EXPECT_EQ(r.best_accuracy, 0.1);
  EXPECT_EQ(r.accuracy, 0.1);
  EXPECT_EQ(r.loss, 0.25);
  EXPECT_EQ(keep_metrics_until(run_metrics_file(folder), 1000).value(), 154u);
}

TEST_F(runs_resume, tells_tensorboard_to_forget_all_steps_when_it_begins_again) {
  const auto restarts = [&] {
    const std::string session_start("\x3a\x02\x08\x01", 4);  // Event.session_log with the status START
    int n = 0;
    for (const auto& f : fs::directory_iterator(folder_ / "tensorboard")) {
      std::ifstream in(f.path(), std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(in), {}};
      n += bytes.find(session_start) != std::string::npos ? 1 : 0;
    }
    return n;
  };
  ASSERT_EQ(restarts(), 0);
  job_->first_step = 0;
  job_->before.reset();
  resumed();
  EXPECT_EQ(restarts(), 1);
}

}  // namespace
}  // namespace troupe
