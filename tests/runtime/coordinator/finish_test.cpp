// Finish conditions: the facts that end a job, and the state that handovers and checkpoints keep.
#include "runtime/coordinator/finish.hpp"

#include <gtest/gtest.h>

namespace troupe {
namespace {

finish_registry stock_finish_rows() {
  finish_registry r;
  add_stock_finishes(r);
  return r;
}
finish_conditions made(const finish_spec& s) { return make_finish(s, stock_finish_rows(), {100}); }

TEST(finish, the_last_step_is_the_smaller_of_epochs_and_steps) {
  finish_spec s;
  s.epochs = 3;
  EXPECT_EQ(last_step_of(made(s)), 300u);
  s.steps = 250;
  EXPECT_EQ(last_step_of(made(s)), 250u);
  s.steps = 350;
  EXPECT_EQ(last_step_of(made(s)), 300u);
  const auto all = made(s);
  EXPECT_FALSE(after_step(all, {.steps = 10000})) << "they only limit the granted steps";
  EXPECT_EQ(last_step_of({}), 0u);
  s = {};
  s.seconds = 5;
  EXPECT_EQ(last_step_of(made(s)), 0u);
}

TEST(finish, time_ends_the_job_at_the_first_step_that_completes_after_it) {
  finish_spec s;
  s.seconds = 60;
  const auto all = made(s);
  EXPECT_FALSE(after_step(all, {.steps = 1, .seconds = 59.9}));
  EXPECT_FALSE(after_evaluation(all, {.steps = 1, .seconds = 70, .accuracy = 1})) << "an evaluation does not end the job";
  EXPECT_TRUE(after_step(all, {.steps = 2, .seconds = 60}));
}

TEST(finish, target_accuracy_ends_the_job_after_an_evaluation) {
  finish_spec s;
  s.target_accuracy = 0.9;
  const auto all = made(s);
  EXPECT_FALSE(after_step(all, {.accuracy = 1}));
  EXPECT_FALSE(after_evaluation(all, {.accuracy = 0.89}));
  EXPECT_FALSE(after_evaluation(all, {})) << "a net without a metric";
  EXPECT_TRUE(after_evaluation(all, {.accuracy = 0.9}));
}

TEST(finish, patience_counts_evaluations_in_a_row_without_a_better_accuracy) {
  finish_spec s;
  s.patience = 2;
  const auto all = made(s);
  std::vector<bool> ends;
  for (const double a : {0.5, 0.4, 0.6, 0.6, 0.7, 0.7, 0.65}) ends.push_back(after_evaluation(all, {.accuracy = a}));
  EXPECT_EQ(ends, (std::vector<bool>{false, false, false, false, false, false, true}));
  const auto other = made(s);
  EXPECT_FALSE(after_evaluation(other, {.accuracy = 0.1})) << "each job has its own count";
}

TEST(finish, patience_counts_losses_without_an_accuracy_or_by_its_measure) {
  finish_spec s;
  s.patience = 2;
  const auto alone = made(s);
  std::vector<bool> ends;
  for (const double loss : {3.0, 2.0, 2.5, 1.5, 1.5, 1.6}) ends.push_back(after_evaluation(alone, {.loss = loss}));
  EXPECT_EQ(ends, (std::vector<bool>{false, false, false, false, false, true}));
  s.measure = "loss";
  const auto by_loss = made(s);
  EXPECT_FALSE(after_evaluation(by_loss, {.loss = 3, .accuracy = 0.5}));
  EXPECT_FALSE(after_evaluation(by_loss, {.loss = 4, .accuracy = 0.6}));
  EXPECT_TRUE(after_evaluation(by_loss, {.loss = 4, .accuracy = 0.7}));
  EXPECT_EQ(memory_of(by_loss), (std::map<std::string, std::string>{{"patience", "2 -3"}}));
}

TEST(finish, any_condition_ends_the_job_and_all_receive_every_fact) {
  finish_spec s;
  s.patience = 2;
  s.target_accuracy = 0.8;
  const auto all = made(s);
  EXPECT_TRUE(after_evaluation(all, {.accuracy = 0.9}));
  EXPECT_FALSE(after_evaluation(all, {.accuracy = 0.3}));
  EXPECT_TRUE(after_evaluation(all, {.accuracy = 0.3})) << "patience has counted from the first evaluation";
}

// A job continues in another plan, or from a checkpoint, with the state of its conditions.
TEST(finish, recall_restores_the_state_that_memory_wrote) {
  finish_spec s;
  s.patience = 3;
  s.target_accuracy = 0.8;
  const auto first = made(s);
  EXPECT_FALSE(after_evaluation(first, {.accuracy = 0.7}));
  EXPECT_FALSE(after_evaluation(first, {.accuracy = 0.1 + 0.2}));
  const auto memory = memory_of(first);
  EXPECT_EQ(memory, (std::map<std::string, std::string>{{"patience", "1 0.7"}}));
  const auto next = made(s);
  recall(next, memory);
  EXPECT_EQ(memory_of(next), memory);
  EXPECT_FALSE(after_evaluation(next, {.accuracy = 0.5}));
  EXPECT_TRUE(after_evaluation(next, {.accuracy = 0.5})) << "the third in a row, counted over both";
  for (const char* damaged : {"", "1", "1 ", "x 0.7", "1 0.7 2"}) {
    const auto anew = made(s);
    recall(anew, {{"patience", damaged}});
    EXPECT_EQ(memory_of(anew), memory_of(made(s))) << damaged;
  }
}

// A condition as a plugin would add it: ends the job when the loss has been below a bound for some
// steps in a row.
struct low_loss final : finish_condition {
  double bound = 0;
  std::int64_t wanted = 0, in_a_row = 0;
  bool after_step(const finish_facts& f) override {
    in_a_row = f.loss < bound ? in_a_row + 1 : 0;
    return in_a_row >= wanted;
  }
};

TEST(finish, a_custom_condition_receives_facts_like_the_stock_ones) {
  auto rows = stock_finish_rows();
  option_spec bound, steps;
  bound.name = "below";
  bound.kind = option_kind::real;
  steps.name = "steps";
  rows.add({.name = "low_loss", .doc = "", .specs = {bound, steps}, .make = [](const options& o, const finish_context& c) {
              auto f = std::make_unique<low_loss>();
              f->bound = o.real("below");
              f->wanted = o.integer("steps") * static_cast<std::int64_t>(c.steps_per_epoch);
              return f;
            }});
  finish_spec s;
  s.epochs = 100;
  s.custom = choice{"low_loss", {{{"below", 0.5}, {"steps", std::int64_t{1}}}}, {}};
  const auto all = make_finish(s, rows, {2});
  EXPECT_EQ(last_step_of(all), 200u);
  EXPECT_EQ(all.back()->kind, "low_loss");
  std::vector<bool> ends;
  for (const double loss : {0.4, 0.6, 0.4, 0.3}) ends.push_back(after_step(all, {.loss = loss}));
  EXPECT_EQ(ends, (std::vector<bool>{false, false, false, true}));
}

}  // namespace
}  // namespace troupe
