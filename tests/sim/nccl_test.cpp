// Reducer nccl in the simulator: its messages are those of hierarchical, and its weights agree with
// those of the other reducers within rounding.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/sim/mode_checkers.hpp"

namespace troupe::testing {
namespace {

using ::testing::HasSubstr;
using prepared = expected<std::shared_ptr<prepared_job>, diagnostics>;

prepared on_gpus(const mode_shape& s, std::uint32_t nodes, std::uint32_t gpus, bool deterministic = false) {
  auto spec = mode_spec(s, *shared_mode_tables());
  spec.train.deterministic = deterministic;
  if (s.reducer == "nccl") spec.train.reducer_values.values["between"] = s.between;
  auto list = nodes_named(nodes);
  for (auto& n : list) {
    n.devices.clear();
    for (std::uint32_t g = 0; g < gpus; ++g) n.devices.push_back("gpu:" + std::to_string(g));
  }
  return prepare_job(spec, shared_mode_tables(), list);
}

std::string refused(const prepared& p) { return p ? std::string() : p.error().front().message; }

std::vector<double> numbers(const std::string& bytes) {
  std::vector<double> v(bytes.size() / sizeof(double));
  std::memcpy(v.data(), bytes.data(), bytes.size());
  return v;
}

TEST(reducer_nccl, agrees_with_the_server_within_rounding_for_every_way_between_the_nodes) {
  const auto dev = make_cpu_device();
  for (const auto seed : law_seeds())
    for (const char* between : {"sharded", "server", "tree"}) {
      SCOPED_TRACE(std::string(between) + ", seed " + std::to_string(seed));
      mode_shape s{.workers = 8, .packets = 16, .reducer = "nccl", .between = between};
      auto c = draw_world(seed, 4, dev.get());
      c.devices = {dev.get(), dev.get()};
      const auto got = run({.job = on_gpus(s, 4, 2).value(), .config = c});
      ASSERT_EQ(got.violation, "");
      s.reducer = "server";
      const auto want = run({.job = on_gpus(s, 4, 2).value(), .config = c});
      const auto a = numbers(got.bytes()), b = numbers(want.bytes());
      ASSERT_EQ(a.size(), b.size());
      for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-9 * (1 + std::abs(b[i])));
    }
}

TEST(reducer_nccl, sends_one_sum_of_a_node_and_no_sum_to_itself) {
  const auto j = on_gpus({.workers = 4, .packets = 8, .reducer = "nccl"}, 2, 2).value();
  const auto& p = j->plan;
  ASSERT_EQ(p.reducers.size(), 2u);
  for (auto r : p.reducers) {
    EXPECT_TRUE(p[r].across);
    EXPECT_EQ(p.below(r).size(), 2u);
    EXPECT_EQ(p[r].device, p[p.workers[p[r].worker]].device) << "next to its first worker";
  }
}

TEST(reducer_nccl, is_refused_where_it_cannot_work) {
  EXPECT_EQ(refused(on_gpus({.workers = 4, .packets = 8, .reducer = "nccl"}, 2, 2)), "");
  EXPECT_THAT(refused(on_gpus({.workers = 4, .packets = 8, .reducer = "nccl"}, 2, 2, true)),
              HasSubstr("reducer \"nccl\" adds in an order that depends on the number of GPUs"));
  EXPECT_THAT(refused(on_gpus({.workers = 6, .packets = 6, .reducer = "nccl"}, 2, 3)),
              HasSubstr("the packets of node 'n1' (0 to 2) are not one node of the packet tree"));
}

}  // namespace
}  // namespace troupe::testing
