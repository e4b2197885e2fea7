// The gradient of a tensor with several readers is summed in the order of the readers, however
// layers share stages: the bits equal those of a plain loop, fused or not, with or without
// recompute, placed or colocated. Tested on nets with layers that read one tensor through two
// inputs.
#include <map>

#include "runtime/plain/plain_loop.hpp"
#include "tests/sim/random_net.hpp"

namespace troupe::testing {
namespace {

std::vector<node_spec> three_nodes() {
  std::vector<node_spec> list(3);
  for (std::size_t i = 0; i < list.size(); ++i) list[i].name = "n" + std::to_string(i + 1);
  return list;
}

std::shared_ptr<prepared_job> prepared_on_three(const job_spec& j) {
  auto made = prepare_job(j, shared_tables(), three_nodes());
  return !made ? nullptr : *made;
}

class gradient_order : public ::testing::Test {
 protected:
  std::string in_world(const job_spec& spec, std::uint64_t seed) const {
    const auto j = prepared_on_three(spec);
    if (!j) return {};
    sim::world_config c;
    c.seed = seed;
    c.dev = dev.get();
    const auto got = run_in_world(j, c);
    EXPECT_EQ(got.error(), "") << "seed " << seed;
    return got.bytes();
  }
  std::string in_plain_loop(const job_spec& spec) const {
    plain_loop loop(prepared_on_three(spec), dev);
    while (loop.steps() < static_cast<std::uint64_t>(*spec.train.finish.steps)) loop.step();
    std::string all;
    for (const auto& [name, t] : loop.weights()) all.append(static_cast<const char*>(t.raw()), t.bytes());
    return all;
  }
  const std::shared_ptr<device> dev = make_cpu_device();
};

// Returns true if a layer reads one tensor through two of its inputs and an earlier layer reads it
// too.
bool reads_twice(const model_graph& g) {
  for (const auto& l : g.layers)
    for (std::size_t k = 0; k < l.inputs.size(); ++k) {
      const auto readers = g.consumers(l.inputs[k]);
      const auto here = std::count_if(readers.begin(), readers.end(),
                                      [&](tensor_ref r) { return r.layer == static_cast<std::int32_t>(l.index); });
      if (here > 1 && l.grad_in_wanted[k] && readers.front().layer < static_cast<std::int32_t>(l.index)) return true;
    }
  return false;
}

TEST_F(gradient_order, is_the_order_of_readers_however_layers_share_stages) {
  std::uint64_t ran = 0, elsewhere = 0;
  for (std::uint64_t seed = 1; ran < seeds(60); ++seed) {
    random_net net(seed);
    auto apart = net.job();
    apart.precision = "fp32";
    apart.train.finish.steps = 2;
    apart.pipeline.fuse = "none";
    const auto j = prepared_on_three(apart);
    ASSERT_TRUE(j) << "seed " << seed;
    if (!reads_twice(j->graph)) continue;
    ++ran;
    const auto want = in_world(apart, seed);
    ASSERT_FALSE(want.empty()) << "seed " << seed;
    EXPECT_TRUE(want == in_plain_loop(apart)) << "plain loop, seed " << seed;
    auto fused = apart;
    fused.pipeline.fuse = "auto";
    EXPECT_TRUE(want == in_world(fused, seed)) << "fuse = \"auto\", seed " << seed;
    auto again = apart;
    net.recompute(again, 0.5);
    EXPECT_TRUE(want == in_world(again, seed)) << "recompute, seed " << seed;
    auto placed = net.chance(0.5) ? fused : again;
    bool feature = false;
    net.place(placed, 3, feature);
    if (const auto plan = feature ? nullptr : prepared_on_three(placed); plan && plan->plan.placed) {
      ++elsewhere;
      EXPECT_TRUE(want == in_world(placed, seed)) << "placed, seed " << seed;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(elsewhere, 0u);
}

}  // namespace
}  // namespace troupe::testing
