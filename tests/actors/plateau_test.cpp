// Tests of the schedule "plateau": the rate falls when evaluations stop improving, at the same step
// in every run, also of a job that was stopped and resumed.
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <random>

#include "runtime/coordinator/handover.hpp"
#include "runtime/coordinator/rate_plateau.hpp"
#include "runtime/record/checkpoint.hpp"
#include "tests/actors/embedded_support.hpp"
#include "tests/error_text.hpp"

namespace troupe {
namespace {

using namespace testing_embedded;
using ::testing::HasSubstr;

rate_plateau made(const std::string& measure, std::int64_t patience, double threshold, double least = 0) {
  options o;
  o.values = {{"measure", measure}, {"patience", patience}, {"threshold", threshold}, {"factor", 0.5}, {"least", least}};
  return rate_plateau(o);
}

TEST(plateau, lowers_after_so_many_evaluations_without_an_improvement) {
  auto p = made("auto", 2, 0);
  EXPECT_FALSE(p.after_evaluation(9, 0.5));
  EXPECT_FALSE(p.after_evaluation(1, 0.5));
  EXPECT_TRUE(p.after_evaluation(0.1, 0.4)) << "the loss does not count if there is an accuracy";
  EXPECT_FALSE(p.after_evaluation(0.1, 0.4)) << "it counts anew";
  EXPECT_FALSE(p.after_evaluation(9, 0.6));
  EXPECT_FALSE(p.after_evaluation(9, 0.6));
  EXPECT_TRUE(p.after_evaluation(9, std::numeric_limits<double>::quiet_NaN()));
  auto by_loss = made("loss", 1, 0.1);
  EXPECT_FALSE(by_loss.after_evaluation(3, 0.5));
  EXPECT_TRUE(by_loss.after_evaluation(2.95, 0.9)) << "within the threshold";
  EXPECT_FALSE(by_loss.after_evaluation(2.85, 0.1));
  auto alone = made("auto", 1, 0);
  EXPECT_FALSE(alone.after_evaluation(3, -1));
  EXPECT_FALSE(alone.after_evaluation(2, -1)) << "without an accuracy the loss counts";
}

TEST(plateau, lowers_to_a_least_rate_and_never_raises_it) {
  EXPECT_EQ(made("auto", 1, 0).lowered(0.5), 0.25);
  EXPECT_EQ(made("auto", 1, 0, 0.4).lowered(0.5), 0.4);
  EXPECT_EQ(made("auto", 1, 0, 0.4).lowered(0.1), 0.1);
}

// Continuing from the text of its state at any point is the same as going on.
TEST(plateau, recalls_its_state_from_text) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const auto patience = static_cast<std::int64_t>(1 + random() % 4);
    auto whole = made("auto", patience, 0.01), part = whole;
    for (int i = 0; i < 30; ++i) {
      const double accuracy = static_cast<double>(random() % 1000) / 1000;
      if (random() % 3 == 0) {
        const auto text = part.memory();
        part = made("auto", patience, 0.01);
        part.recall(text);
      }
      ASSERT_EQ(whole.after_evaluation(1, accuracy), part.after_evaluation(1, accuracy));
    }
  }
  for (const char* bad : {"", " ", "1", "x 1", "1 x", "nan 0", "0.5 -1", "0.5 1 "}) {
    auto p = made("auto", 1, 0);
    p.recall(bad);
    EXPECT_EQ(p.memory(), "-inf 0") << bad;
  }
}

// Evaluations of a model that cannot learn: the rate 0 keeps every weight.
const overrides stuck{"train.dynamics.schedule={kind=\"plateau\",patience=2,factor=0.5}", "eval.every=3", "train.finish.steps=20",
                      "train.dynamics.lr=0.000001"};

struct observed {
  std::vector<std::pair<std::uint64_t, double>> set;  // step and rate of each change
  std::string weights;
  std::uint64_t steps = 0;
  std::optional<checkpoint> kept;  // the last one
};

observed run_of(const std::shared_ptr<prepared_job>& j) {
  observed seen;
  const auto dev = make_cpu_device();
  embedded_options o;
  o.on_event = [&](const event_effect& e) {
    if (e.is<set_event>()) seen.set.emplace_back(e.step, flatten(e).values.at(0).second);
  };
  o.on_store = [&](const store_effect& s) {
    if (s.what == store_effect::kind_of::checkpoint) seen.kept = checkpoint_of(*j, s, dev->numerics_id());
  };
  embedded_run run(j, std::move(o));
  const auto r = run.run();
  EXPECT_TRUE(r.ok) << r.error;
  seen.weights = r.weights_sha256;
  seen.steps = r.step;
  return seen;
}

TEST(plateau, changes_the_rate_at_the_same_steps_with_any_number_of_workers) {
  auto set = stuck;
  set.emplace_back("train.dynamics.lr=0");
  const auto first = run_of(job_of(lenet_like(), set));
  EXPECT_TRUE(first.set.empty()) << "a rate of 0 cannot be lowered";
  set.back() = "train.dynamics.schedule.measure=\"accuracy\"";
  const auto one = run_of(job_of(lenet_like(), set));
  ASSERT_FALSE(one.set.empty());
  EXPECT_EQ(one.set.front().second, 0.0000005);
  EXPECT_EQ(one.set.front().first % 3, 0u) << "after an evaluation";
  for (const char* workers : {"topology.workers_per_group=2", "topology.workers_per_group=3"}) {
    auto more = set;
    more.emplace_back(workers);
    const auto several = run_of(job_of(lenet_like(), more));
    EXPECT_EQ(several.set, one.set);
    EXPECT_EQ(several.weights, one.weights);
  }
}

TEST(plateau, continues_from_a_checkpoint_as_if_unbroken) {
  auto set = stuck;
  set[3] = "train.dynamics.lr=0.05";
  set.emplace_back("train.dynamics.schedule.threshold=0.9");  // nothing is an improvement but the first evaluation
  const auto whole = run_of(job_of(lenet_like(), set));
  ASSERT_GE(whole.set.size(), 2u);
  const auto dev = make_cpu_device();
  for (const std::uint64_t at : {4u, 8u, 13u}) {
    const auto j = job_of(lenet_like(), set);
    std::optional<checkpoint> kept;
    embedded_options o;
    embedded_run* self = nullptr;
    o.on_event = [&](const event_effect& e) {
      if (e.is<step_event>() && e.step == at) self->stop();
    };
    o.on_store = [&](const store_effect& s) {
      if (s.what == store_effect::kind_of::checkpoint) kept = checkpoint_of(*j, s, dev->numerics_id());
    };
    embedded_run run(j, std::move(o));
    self = &run;
    ASSERT_TRUE(run.run().stopped);
    ASSERT_TRUE(kept);
    auto rest = job_of(lenet_like(), set);
    ASSERT_EQ(test::error_text(resume_from(*rest, *kept, "c.safetensors", dev->numerics_id(), {})), "");
    EXPECT_EQ(run_of(rest).weights, whole.weights) << "stopped at step " << at;
  }
}

// A run ends with an evaluation that a longer run does not make: it counts neither for the rate nor
// for the patience of the longer one.
TEST(plateau, of_an_extended_run_does_as_in_the_longer_run) {
  const auto dev = make_cpu_device();
  const std::string lr = "train.dynamics.lr=", steps = "train.finish.steps=";
  const overrides falls{"train.dynamics.schedule={kind=\"plateau\",patience=1,factor=0.5,threshold=0.9}", lr + "0.05"};
  const overrides waits{"train.finish.patience=3", lr + "0"};
  for (auto set : {falls, waits}) {
    set.insert(set.end(), {"eval.every=20", "checkpoint.every=30", steps + "90"});
    const auto whole = run_of(job_of(lenet_like(), set));
    EXPECT_EQ(whole.set.empty(), set[0] == waits[0]) << set[0];
    set.back() = steps + "30";
    auto part = run_of(job_of(lenet_like(), set));
    ASSERT_TRUE(part.kept) << set[0];
    ASSERT_EQ(part.kept->step, 30u) << set[0];
    EXPECT_TRUE(part.set.empty()) << set[0];
    set.back() = steps + "90";
    auto rest = job_of(lenet_like(), set);
    ASSERT_EQ(test::error_text(resume_from(*rest, *part.kept, "c.safetensors", dev->numerics_id(), {})), "");
    const auto extended = run_of(rest);
    EXPECT_EQ(extended.set, whole.set) << set[0];
    EXPECT_EQ(extended.steps, whole.steps) << set[0];
    EXPECT_EQ(extended.weights, whole.weights) << set[0];
  }
}

TEST(plateau, needs_evaluations) {
  const auto j = parse_job(lenet_like(), "job.toml", stock_tables(), {"train.dynamics.schedule={kind=\"plateau\"}"});
  ASSERT_FALSE(j);
  EXPECT_THAT(j.error().front().message, HasSubstr("'plateau' needs evaluations: set [eval] every"));
}

}  // namespace
}  // namespace troupe
