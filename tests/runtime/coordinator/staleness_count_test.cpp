// Sums one answer of every worker to one request.
#include "runtime/coordinator/staleness_count.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(staleness_count, sums_one_answer_of_every_worker) {
  model_graph g;
  g.params.resize(2);
  g.params[0].full_name = "b";
  g.params[1].full_name = "a";
  staleness_count c({role_id{3}, role_id{4}});
  EXPECT_FALSE(c.take(role_id{3}, {{{"a", {9}}}})) << "no request is open";
  EXPECT_TRUE(c.ask());
  EXPECT_FALSE(c.ask()) << "a request is open";
  EXPECT_FALSE(c.take(role_id{3}, {{{"a", {1, 0, 2}}, {"b", {1}}}}));
  EXPECT_FALSE(c.take(role_id{3}, {{{"a", {50}}}})) << "duplicate";
  EXPECT_FALSE(c.waits_for(role_id{3}));
  EXPECT_TRUE(c.waits_for(role_id{4}));
  EXPECT_FALSE(c.observed());
  EXPECT_TRUE(c.take(role_id{4}, {{{"a", {1, 0, 0, 5}}}}));
  EXPECT_TRUE(c.observed());
  EXPECT_FALSE(c.asking());
  EXPECT_THAT(c.sums(g), ElementsAre(staleness_entry{"b", {{0, 1}}}, staleness_entry{"a", {{0, 2}, {2, 2}, {3, 5}}}));
  EXPECT_TRUE(c.ask());
  EXPECT_THAT(c.sums(g), IsEmpty()) << "a new request starts from zero";
  EXPECT_TRUE(c.waits_for(role_id{3}));
}

}  // namespace
}  // namespace troupe
