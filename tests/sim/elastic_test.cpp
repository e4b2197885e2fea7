// The number of nodes and workers of a job that may use more or fewer nodes; its weights do not
// depend on them.
#include "runtime/job/elastic.hpp"

#include "tests/sim/moving.hpp"

namespace troupe::testing {
namespace {

std::shared_ptr<prepared_job> prepared_on(const job_spec& s, std::uint32_t nodes) {
  auto made = prepare_job(s, shared_tables(), nodes_named(nodes));
  if (!made) {
    ADD_FAILURE() << made.error().front().to_string();
    return nullptr;
  }
  return *made;
}

std::set<std::string> used(const prepared_job& j) {
  std::set<std::string> names;
  for (const auto& r : j.plan.roles)
    if (r.kind != role_kind::coordinator) names.insert(j.plan.nodes[r.node].name);
  return names;
}

std::shared_ptr<prepared_job> without(const std::shared_ptr<prepared_job>& j, const std::set<std::string>& nodes) {
  amendments a;
  a.without = nodes;
  auto made = prepare_again(j, a);
  if (!made) {
    ADD_FAILURE() << made.error().front().to_string();
    return nullptr;
  }
  return *made;
}

job_spec spec_of(std::uint32_t workers) { return small_spec({.packets = 4, .workers = workers, .shards = 1, .steps = 60}); }

TEST(elastic, number_of_workers_follows_the_number_of_nodes) {
  auto s = spec_of(4);
  s.min_nodes = 1;
  const auto j = prepared_on(s, 4);
  ASSERT_TRUE(j);
  EXPECT_EQ(j->plan.loaders.size(), 4u);
  const auto three = without(j, {"n2"});
  EXPECT_EQ(three->plan.loaders.size(), 3u);
  const auto one = without(j, {"n2", "n3", "n4"});
  EXPECT_EQ(one->plan.loaders.size(), 1u);
  EXPECT_EQ(without(j, {"n4"})->plan.loaders.size(), 3u) << "counted from the job file, not from the former plan";
  EXPECT_EQ(prepared_on(spec_of(4), 2)->plan.loaders.size(), 4u) << "without min_nodes the job has the workers of its file";
}

TEST(elastic, uses_at_most_max_nodes) {
  auto s = spec_of(2);
  s.max_nodes = 2;
  const auto j = prepared_on(s, 4);
  EXPECT_EQ(used(*j), (std::set<std::string>{"n1", "n2"}));
  EXPECT_EQ(used(*without(j, {"n2"})), (std::set<std::string>{"n1", "n3"})) << "another node replaces it";
  EXPECT_EQ(without(j, {"n2", "n3", "n4"})->plan.loaders.size(), 1u);
}

TEST(elastic, spare_replaces_a_failed_node) {
  auto s = spec_of(4);
  s.spares = 1;
  const auto j = prepared_on(s, 4);
  EXPECT_EQ(used(*j), (std::set<std::string>{"n1", "n2", "n3"}));
  EXPECT_EQ(j->plan.loaders.size(), 4u);
  const auto next = without(j, {"n3"});
  EXPECT_EQ(used(*next), (std::set<std::string>{"n1", "n2", "n4"}));
  EXPECT_EQ(next->plan.loaders.size(), 4u);
}

TEST(elastic, refuses_fewer_than_min_nodes) {
  auto s = spec_of(2);
  s.min_nodes = 3;
  const auto few = prepare_job(s, shared_tables(), nodes_named(2));
  ASSERT_FALSE(few);
  EXPECT_EQ(few.error().front().message, "min_nodes is 3, but the job has only 2 nodes");
  const auto j = prepared_on(s, 3);
  amendments a;
  a.without = {"n3"};
  EXPECT_FALSE(prepare_again(j, a));
}

TEST(elastic, refuses_a_mode_or_an_option_of_it_that_does_not_exist) {
  const auto j = prepared_on(spec_of(2), 2);
  const auto why = [&](const mode_choice& m) {
    amendments a;
    set_mode(a, m);
    const auto made = prepare_again(j, a);
    return made ? std::string() : made.error().front().message;
  };
  EXPECT_EQ(why({"spp", {}}), "unknown mode 'spp'");
  EXPECT_EQ(why({"ssp", {{"stale", "3"}}}).substr(0, 35), "mode 'ssp': unknown option 'stale';");
  EXPECT_EQ(why({"ssp", {{"staleness", "much"}}}).substr(0, 12), "mode 'ssp': ");
  EXPECT_EQ(why({"ssp", {{"staleness", "3"}}}), "");
}

TEST(elastic, weights_do_not_depend_on_the_number_of_workers) {
  auto s = spec_of(4);
  s.min_nodes = 1;
  sim::world_config c;
  c.dev = cpu().get();
  const auto still = run_in_world(prepared_on(s, 4), c);
  const auto got = run_moved(prepared_on(s, 4),
                             {{2, {drain_command{"n3"}}},
                              {4, {drain_command{"n4"}}},
                              {7, {add_node_command{"n3"}}},
                              {8, {add_node_command{"n4"}}},
                              {11, {drain_command{"n2"}}},
                              {12, {drain_command{"n3"}}},
                              {13, {drain_command{"n4"}}},
                              {16, {add_node_command{"n2"}}},
                              {17, {add_node_command{"n4"}}}},
                             c);
  EXPECT_EQ(got.refused, std::vector<std::string>{});
  EXPECT_EQ(got.moved.size(), 9u);
  EXPECT_TRUE(got.bytes() == still.bytes());
}

}  // namespace
}  // namespace troupe::testing
