// Where the time of a run goes, from samples of its roles; curves in one line; wrapped text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "apps/cli/screen.hpp"
#include "apps/commands/train/summary.hpp"
#include "apps/commands/train/time_shares.hpp"

namespace troupe {
namespace {

using testing::HasSubstr;
using testing::Not;

// Two workers with a loader, a stage and a worker role each, and a shard.
job_plan plan_of_two() {
  job_plan p;
  p.nodes.push_back({"local", {"cpu:0"}});
  const auto add = [&](role_kind k, std::uint32_t worker) {
    role_plan r;
    r.id = role_id{static_cast<std::uint32_t>(p.roles.size())};
    r.kind = k;
    r.worker = worker;
    p.roles.push_back(r);
  };
  add(role_kind::coordinator, 0);
  for (std::uint32_t w = 0; w < 2; ++w) {
    p.ranges.push_back({w, 1});
    add(role_kind::loader, w);
    add(role_kind::stage, w);
    add(role_kind::worker, w);
  }
  add(role_kind::shard, 0);
  return p;
}

class time_shares_test : public testing::Test {
 protected:
  role_published role(std::uint32_t id, wait_kind waits = wait_kind::none, bool runs = false, std::uint32_t in_flight = 0) const {
    role_published r;
    r.id = role_id{id};
    r.status.waits = waits;
    r.status.in_flight = in_flight;
    if (runs) r.task.serial = 1;
    return r;
  }
  time_shares shares{plan_of_two()};
};

TEST_F(time_shares_test, counts_each_worker_once_per_sample) {
  using use = time_shares::use;
  // Worker 0 (roles 1 to 3) computes; worker 1 (roles 4 to 6) waits for weights.
  shares.add({role(1), role(2, wait_kind::none, true, 1), role(3), role(4, wait_kind::none, true),
              role(5, wait_kind::weights, false, 1), role(6), role(7, wait_kind::none, true)},
             0);
  EXPECT_DOUBLE_EQ(shares.share(use::computing), 0.5);
  EXPECT_DOUBLE_EQ(shares.share(use::weights), 0.5);
  // Both have no packets: worker 0 reads, worker 1 waits for a grant.
  shares.add({role(1, wait_kind::none, true), role(2), role(3), role(4, wait_kind::grant), role(5), role(6)}, 1);
  EXPECT_DOUBLE_EQ(shares.share(use::computing), 0.25);
  EXPECT_DOUBLE_EQ(shares.share(use::data), 0.25);
  EXPECT_DOUBLE_EQ(shares.share(use::others), 0.25);
}

TEST_F(time_shares_test, packets_on_their_way_count_as_waiting_for_messages) {
  using use = time_shares::use;
  shares.add({role(1), role(2, wait_kind::gradients, false, 1), role(3), role(4), role(5, wait_kind::credit, false, 1), role(6)},
             0);
  EXPECT_DOUBLE_EQ(shares.share(use::messages), 1);
  shares.add({role(1), role(2), role(3), role(4), role(5), role(6)}, 1);
  EXPECT_DOUBLE_EQ(shares.share(use::idle), 0.5);
}

TEST_F(time_shares_test, shards_and_unknown_roles_are_no_workers) {
  shares.add({role(0, wait_kind::answers), role(7, wait_kind::gradients, true), role(99, wait_kind::none, true)}, 0);
  EXPECT_DOUBLE_EQ(shares.share(time_shares::use::computing), 0);
}

TEST_F(time_shares_test, says_nothing_without_samples) {
  EXPECT_EQ(shares.text(), "");
  shares.add({}, 0);
  EXPECT_EQ(shares.text(), "");
}

TEST_F(time_shares_test, text_names_the_largest_wait_first_and_the_tasks_at_once) {
  auto compute = role(2, wait_kind::none, true, 1), weights = role(5, wait_kind::weights, false, 1);
  shares.add({compute, weights}, 0);
  compute.busy_seconds = 1.5;
  shares.add({compute, weights}, 1);
  shares.add({compute, role(4, wait_kind::data)}, 1);
  EXPECT_THAT(shares.text(), HasSubstr("computing 50 %, waiting for weights 33 %, for data 17 %"));
  EXPECT_THAT(shares.text(), HasSubstr("1.5 tasks at once"));
  EXPECT_THAT(shares.text(), Not(HasSubstr("idle")));
}

TEST(screen_text, follows_the_encoding_of_the_locale) {
  setenv("LC_ALL", "C", 1);
  EXPECT_FALSE(writes_utf8());
  setenv("LC_ALL", "C.UTF-8", 1);
  EXPECT_TRUE(writes_utf8());
  unsetenv("LC_ALL");
}

TEST(screen_text, wraps_at_blanks_and_indents_further_lines) {
  EXPECT_EQ(wrapped("one two three", 8), "one two\nthree");
  EXPECT_EQ(wrapped("one two three", 8, 2), "one two\n  three");
  EXPECT_EQ(wrapped("abcdefghijkl x", 5), "abcdefghijkl\nx");
  EXPECT_EQ(wrapped("a\nb", 10), "a\nb");
  EXPECT_EQ(cut_to("aéb", 2), "aé");
}

TEST(screen_text, shortens_a_path_below_the_working_directory) {
  const auto here = std::filesystem::current_path();
  EXPECT_EQ(near_path((here / "runs/1-x").string()), "runs/1-x");
  EXPECT_EQ(near_path("runs/1-x"), "runs/1-x");
  EXPECT_EQ(near_path((here.parent_path() / "other").string()), (here.parent_path() / "other").string());
}

TEST(thinned_series, keeps_the_mean_and_a_bounded_number_of_values) {
  thinned_series s;
  for (int i = 0; i < 100000; ++i) s.add(i % 2);
  EXPECT_LE(s.values().size(), 512u);
  EXPECT_GT(s.values().size(), 128u);
  for (const double v : s.values()) EXPECT_DOUBLE_EQ(v, 0.5);
}

TEST(run_summary, names_the_first_last_and_lowest_loss_and_the_best_accuracy) {
  run_summary s;
  const std::vector<double> losses{2.0, 0.5, 1.0};
  for (std::size_t i = 0; i < losses.size(); ++i) s.event({i + 1, step_event{.loss = losses[i]}});
  s.event({2, eval_event{.accuracy = 0.5, .loss = 1.0}});
  EXPECT_FALSE(s.improved());
  s.event({3, eval_event{.accuracy = 0.75, .loss = 1.0}});
  EXPECT_TRUE(s.improved());
  s.event({4, eval_event{.accuracy = 0.25, .loss = 1.0}});
  EXPECT_FALSE(s.improved());
  const auto text = s.text({}, 30, 2, {"computing 90 %", "runs/1-x", {"troupe plot 1", "troupe test x.toml"}});
  EXPECT_THAT(text, HasSubstr("first 2.0000, last 1.0000, lowest 0.5000 at step 2\n"));
  EXPECT_THAT(text, HasSubstr("best 0.7500 at step 3\n"));
  EXPECT_THAT(text, HasSubstr("15 examples/s on average"));
  EXPECT_THAT(text, HasSubstr("time        computing 90 %\n"));
  EXPECT_THAT(text, HasSubstr("run         runs/1-x\n"));
  EXPECT_THAT(text, HasSubstr("next        troupe plot 1\n            troupe test x.toml\n"));
  EXPECT_EQ(text.find('\033'), std::string::npos);
}

TEST(run_summary, names_the_best_evaluation_of_all_sessions_of_a_run) {
  run_summary s;
  s.begin_with(best_evaluation{20, 0.1719, 2.0});
  s.event({81, step_event{.loss = 1}});
  s.event({90, eval_event{.accuracy = 0.1406, .loss = 1.0}});
  EXPECT_FALSE(s.improved());
  EXPECT_THAT(s.text({}, 0, 0, {}), HasSubstr("accuracy    best 0.1719 at step 20\n"));
  s.event({100, eval_event{.accuracy = 0.1719, .loss = 1.0}});
  EXPECT_TRUE(s.improved()) << "of equal accuracies the lower loss is better";
  EXPECT_THAT(s.text({}, 0, 0, {}), HasSubstr("best 0.1719 at step 100\n"));
}

TEST(run_summary, forgets_evaluations_that_did_not_happen_when_the_job_goes_back) {
  run_summary s;
  s.event({10, step_event{.loss = 3}});
  s.event({10, eval_event{.loss = 3}});
  s.event({20, step_event{.loss = 2}});
  s.event({20, eval_event{.loss = 1}});
  s.event({11, step_event{.loss = 2}});
  EXPECT_THAT(s.text({}, 0, 0, {}), HasSubstr("test loss   best 3.0000 at step 10\n"));
}

TEST(run_summary, forgets_steps_that_did_not_happen_when_the_job_goes_back_and_ends) {
  run_summary s;
  s.event({10, step_event{.loss = 3}});
  s.event({15, step_event{.loss = 2.5}});
  s.event({15, eval_event{.loss = 3}});
  s.event({20, step_event{.loss = 2}});
  s.event({20, eval_event{.loss = 1}});
  s.event({15, recovered_event{.message = "n2 is lost"}});
  EXPECT_THAT(s.text({}, 0, 0, {}), HasSubstr("lowest 2.5000 at step 15\n"));
  EXPECT_THAT(s.text({}, 0, 0, {}), HasSubstr("test loss   best 3.0000 at step 15\n"));
}

}  // namespace
}  // namespace troupe
