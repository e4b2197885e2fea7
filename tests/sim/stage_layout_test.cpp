// The tables that a stage reads from its plan: needs, gradient addends and last reads.
#include "runtime/stage/stage_layout.hpp"

#include <gmock/gmock.h>

#include "tests/sim/small_job.hpp"

namespace troupe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

// The layout of the stage that hosts a layer of the small net (small_job.hpp).
stage_layout layout_of(const std::shared_ptr<prepared_job>& j, std::uint32_t layer) {
  return {std::shared_ptr<const model_graph>(j, &j->graph), std::shared_ptr<const job_plan>(j, &j->plan), stage_of(*j, layer)};
}
std::uint32_t named(const prepared_job& j, const std::string& name) {
  for (std::uint32_t l = 0; l < j.graph.layers.size(); ++l)
    if (j.graph.layers[l].name == name) return l;
  ADD_FAILURE() << name;
  return 0;
}

TEST(stage_layouts, have_a_need_per_tensor_from_another_role) {
  const auto j = prepare({});
  const auto loss = layout_of(j, named(*j, "loss"));
  ASSERT_THAT(loss.needs(), SizeIs(2));
  EXPECT_THAT(loss.needs()[0].edges, SizeIs(1));
  EXPECT_EQ(loss.need_at(0, 0), 0);
  EXPECT_EQ(loss.need_at(0, 1), 1);
  EXPECT_EQ(loss.maker_of(0, 0), -1);
  EXPECT_TRUE(loss.reports(static_cast<std::uint8_t>(phase::train)));
  EXPECT_FALSE(layout_of(j, named(*j, "conv1")).reports(static_cast<std::uint8_t>(phase::train)));
}

TEST(stage_layouts, list_the_addends_of_a_gradient_in_the_order_of_the_consumers) {
  const auto j = prepare({});
  const auto pool = layout_of(j, named(*j, "pool1"));
  const auto& addends = pool.gradient_at(0, 0);
  ASSERT_THAT(addends, SizeIs(2));
  EXPECT_FALSE(addends[0].hosted);
  EXPECT_EQ(pool.out_edge(addends[0].at).to, stage_of(*j, named(*j, "left")));
  EXPECT_EQ(pool.out_edge(addends[1].at).to, stage_of(*j, named(*j, "right")));
  EXPECT_FALSE(pool.remade(addends[0].at)) << "an uncut tensor is sent as it is";
}

TEST(stage_layouts, know_the_last_reader_of_hosted_tensors) {
  const auto j = prepare({.fuse = "auto"});
  const auto layout = layout_of(j, named(*j, "pool1"));
  const auto at = [&](const char* name) { return layout.position_of(static_cast<std::int32_t>(named(*j, name))); };
  ASSERT_GE(at("left"), 0) << "one stage hosts both";
  ASSERT_GE(at("right"), 0);
  const auto pool = std::pair(static_cast<std::size_t>(at("pool1")), std::size_t{0});
  const auto train = static_cast<std::uint8_t>(phase::train);
  EXPECT_THAT(layout.last_reads(train, layout.step_at(at("left"))).outputs, ::testing::Not(::testing::Contains(pool)));
  EXPECT_THAT(layout.last_reads(train, layout.step_at(at("right"))).outputs, ::testing::Contains(pool));
  EXPECT_EQ(layout.maker_of(static_cast<std::size_t>(at("right")), 0), at("pool1"));
  EXPECT_FALSE(layout.leaves(train, pool.first, 0));
  const auto& addends = layout.gradient_at(pool.first, 0);
  ASSERT_THAT(addends, SizeIs(2));
  EXPECT_TRUE(addends[0].hosted);
  EXPECT_EQ(addends[0].at, static_cast<std::size_t>(at("left")));
  EXPECT_EQ(addends[1].at, static_cast<std::size_t>(at("right")));
  EXPECT_THAT(addends[1].ports, ElementsAre(0u));
}

TEST(stage_layouts, scale_shapes_to_the_examples_of_a_packet) {
  const auto j = prepare({});
  const auto layout = layout_of(j, named(*j, "conv1"));
  const auto& out = layout.hosted(0).out[0];
  EXPECT_EQ(layout.sized(out, 7)[0], 7);
  EXPECT_EQ(layout.sized(out, 7)[1], out[1]);
  EXPECT_EQ(layout.sized(shape{}, 7), shape{}) << "a scalar";
}

}  // namespace
}  // namespace troupe::testing
