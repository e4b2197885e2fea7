// Simulations of many nodes: the number of allocations grows with the nodes, not with their square.
#include "runtime/job/auto_reducer.hpp"
#include "runtime/job/coarse.hpp"
#include "runtime/sim/world.hpp"
#include "tests/actors/embedded_support.hpp"
#include "tests/memory/allocations.hpp"

namespace troupe {
namespace {

using namespace testing_embedded;
using testing_memory::allocations;

// A job without maths, with one worker on each of `count` nodes, as `troupe sim` prepares it.
std::shared_ptr<prepared_job> counted_job(std::uint32_t count, const std::string& reducer) {
  const auto all = std::make_shared<const tables>(stock_tables());
  auto spec = parse_job(lenet_like(), "job.toml", *all, {"train.finish={steps=2}", "data.examples=65536"}).value();
  spec.pipeline.packets = spec.data.batch = spec.topology.workers_per_group = count;
  spec.pipeline.fuse = "auto";
  spec.eval.every = 0;
  spec.train.reducer = reducer;
  spec.train.reducer_values = check_options({}, all->reducers.find(reducer)->specs);
  std::vector<node_spec> nodes(count);
  for (std::uint32_t i = 0; i < count; ++i) nodes[i].name = "n" + std::to_string(i + 1);
  const auto full = prepare_job(std::move(spec), all, nodes);
  EXPECT_TRUE(full) << full.error().front().to_string();
  return make_coarse(**full, 4, nodes).value();
}

template <class F>
allocations counted_in(F f) {
  const auto before = allocations::so_far();
  f();
  return allocations::so_far() - before;
}

TEST(scale, a_plan_with_a_shard_on_every_node_is_priced_with_few_allocations_a_node) {
  if (!allocations::counted()) GTEST_SKIP() << "allocations are not counted in this build";
  constexpr std::uint32_t nodes = 256;
  const auto j = counted_job(nodes, "sharded");
  ASSERT_EQ(j->plan.shards.size(), nodes);
  const auto made = counted_in([&] { cost_of_exchange(j->plan, j->graph, j->spec); });
  EXPECT_LT(made.small + made.large, 40 * nodes) << "pairs of nodes: " << nodes * nodes;
}

TEST(scale, roles_have_no_lists_of_all_workers) {
  if (!allocations::counted()) GTEST_SKIP() << "allocations are not counted in this build";
  constexpr std::uint32_t nodes = 1200;  // a list of their roles is a large allocation
  static_assert(nodes * sizeof(role_id) > testing_memory::large_allocation);
  const auto j = counted_job(nodes, "tree");
  std::vector<std::unique_ptr<role>> roles;
  roles.reserve(j->plan.roles.size());
  const auto made = counted_in([&] {
    for (const auto& r : j->plan.roles) roles.push_back(make_role(j, r.id));
  });
  EXPECT_LT(made.large, nodes / 10) << "of " << roles.size() << " roles";
}

// From 256 nodes on: with fewer, `hierarchical` has fewer shards than blocks of parameters, and
// every node sends to every shard.
TEST(scale, allocations_of_a_run_grow_with_the_nodes) {
  if (!allocations::counted()) GTEST_SKIP() << "allocations are not counted in this build";
  for (const char* reducer : {"server", "tree", "hierarchical"}) {
    const auto per_node = [&](std::uint32_t nodes) {
      const auto made = counted_in([&] {
        const auto j = counted_job(nodes, reducer);
        sim::world w({});
        for (const auto& r : j->plan.roles) w.add(r.id, r.node, make_role(j, r.id));
        bool done = false;
        w.on_event = [&](const event_effect& e) { done = done || e.is<done_event>(); };
        envelope go;
        go.h.dst = role_id{0};
        go.body = start{};
        w.inject(go);
        EXPECT_TRUE(w.run(10'000'000, [&] { return done; }));
        EXPECT_TRUE(done) << reducer << ", " << nodes << " nodes";
      });
      return static_cast<double>(made.small + made.large) / nodes;
    };
    EXPECT_LT(per_node(1024), 1.2 * per_node(256)) << reducer;
  }
}

}  // namespace
}  // namespace troupe
