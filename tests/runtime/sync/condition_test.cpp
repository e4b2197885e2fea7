// Sync conditions: the steps at which a worker exchanges.
#include "runtime/sync/condition.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace troupe {
namespace {

using ::testing::ElementsAre;
using whole = std::int64_t;
using list = std::vector<whole>;

std::unique_ptr<sync_condition> made(const char* kind, options given) {
  condition_registry r;
  add_stock_conditions(r);
  return r.find(kind)->make(check_options(given, r.find(kind)->specs));
}

// The steps at which exchanges happen if each happens as soon as it is due. The drift grows by
// `drift` per step since the last exchange.
std::vector<std::uint64_t> exchanges(sync_condition& c, std::uint64_t steps, double drift = 0) {
  std::vector<std::uint64_t> at;
  condition_view v;
  for (v.step = 1; v.step <= steps; ++v.step) {
    v.drift = drift * static_cast<double>(v.step - v.last_exchange);
    if (!c.due(v)) continue;
    at.push_back(v.step);
    v.last_exchange = v.step;
  }
  return at;
}

TEST(condition, every_counts_steps_since_the_last_exchange) {
  EXPECT_THAT(exchanges(*made("every", {{{"steps", whole{1}}}}), 3), ElementsAre(1, 2, 3));
  EXPECT_THAT(exchanges(*made("every", {{{"steps", whole{10}}}}), 35), ElementsAre(10, 20, 30));
  const auto c = made("every", {{{"steps", whole{10}}}});
  EXPECT_FALSE(c->needs_drift());
  EXPECT_FALSE(c->due({.step = 14, .last_exchange = 5, .drift = 100})) << "a late exchange delays the next one";
  EXPECT_TRUE(c->due({.step = 15, .last_exchange = 5}));
  EXPECT_TRUE(c->due({.step = 40, .last_exchange = 5})) << "an overdue exchange stays due";
  EXPECT_THROW(made("every", {{{"steps", whole{0}}}}), option_error);
  EXPECT_THROW(made("every", {}), option_error);
}

TEST(condition, schedule_changes_its_period_at_the_listed_steps) {
  const auto c = made("schedule", {{{"periods", list{1, 4, 10}}, {"at", list{3, 11}}}});
  EXPECT_FALSE(c->needs_drift());
  EXPECT_THAT(exchanges(*c, 45), ElementsAre(1, 2, 3, 7, 11, 21, 31, 41));
  EXPECT_THAT(exchanges(*c, 45), ElementsAre(1, 2, 3, 7, 11, 21, 31, 41)) << "the answer depends on the views alone";
  EXPECT_THAT(exchanges(*made("schedule", {{{"periods", list{5, 1}}, {"at", list{7}}}}), 10), ElementsAre(5, 8, 9, 10));
  EXPECT_THAT(exchanges(*made("schedule", {{{"periods", list{4}}}}), 9), ElementsAre(4, 8));
  EXPECT_THROW(made("schedule", {{{"periods", list{1, 2}}}}), option_error);
  EXPECT_THROW(made("schedule", {{{"periods", list{1}}, {"at", list{3}}}}), option_error);
  EXPECT_THROW(made("schedule", {{{"periods", list{1, 2, 3}}, {"at", list{3, 3}}}}), option_error);
  EXPECT_THROW(made("schedule", {{{"periods", list{1, 0}}, {"at", list{3}}}}), option_error);
}

TEST(condition, drift_is_due_when_the_weights_have_moved_or_at_most_has_passed) {
  const auto c = made("drift", {{{"threshold", 0.1}}});
  EXPECT_TRUE(c->needs_drift());
  EXPECT_THAT(exchanges(*c, 12, 0.03), ElementsAre(4, 8, 12));
  EXPECT_THAT(exchanges(*c, 1000, 0.0), ElementsAre());
  EXPECT_FALSE(c->due({.step = 3, .last_exchange = 1, .drift = 0.1})) << "drift equal to the threshold is not due";
  EXPECT_FALSE(c->due({.step = 3, .last_exchange = 3, .drift = 1})) << "not due twice at one step";
  EXPECT_TRUE(c->due({.step = 4, .last_exchange = 3, .drift = std::numeric_limits<double>::quiet_NaN()}));
  EXPECT_THAT(exchanges(*made("drift", {{{"threshold", 0.1}, {"at_most", whole{3}}}}), 7, 0.03), ElementsAre(3, 6));
  EXPECT_THAT(exchanges(*made("drift", {{{"threshold", 0.1}, {"at_most", whole{3}}}}), 7, 0.2), ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_THROW(made("drift", {}), option_error);
  EXPECT_THROW(made("drift", {{{"threshold", -0.5}}}), option_error);
}

TEST(condition, drift_is_relative_to_the_weights_last_exchanged) {
  EXPECT_DOUBLE_EQ(drift_of(0.04, 4), 0.1);
  EXPECT_EQ(drift_of(0, 4), 0);
  EXPECT_EQ(drift_of(0, 0), 0);
  EXPECT_TRUE(std::isinf(drift_of(1e-9, 0)));
}

}  // namespace
}  // namespace troupe
