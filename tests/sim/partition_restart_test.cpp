// A node of a placed job is restarted: the job ends with an error that names the node, or with the
// weights of an undisturbed run. It never hangs. (Restarts of roles that hold only packets:
// laws_killed_test.cpp.)
#include "tests/sim/random_net.hpp"

namespace troupe::testing {
namespace {

// `restarts`: roles retain messages for replay; then only the loss of unique state ends the job.
void restart_nodes(bool restarts) {
  const std::shared_ptr<device> dev = make_cpu_device();
  std::uint64_t ran = 0, named = 0, whole = 0, gathered = 0;
  for (std::uint64_t seed = 1; ran < seeds(); ++seed) {
    random_net net(seed);
    auto spec = net.job();
    bool feature = false;
    net.place(spec, 4, feature);
    const bool gathers = seed % 2 == 0 && net.gather(spec, 0.7);
    std::vector<node_spec> nodes(4);
    for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i].name = "n" + std::to_string(i + 1);
    auto made = prepare_job(spec, shared_tables(), nodes);
    if (!made) continue;
    const auto j = *made;
    if (!j->plan.placed) continue;
    j->restarts = restarts;
    ++ran;
    gathered += gathers ? 1 : 0;
    sim::world_config c;
    c.seed = seed;
    c.dev = dev.get();
    const auto undisturbed = run_in_world(j, c);
    const auto node = static_cast<std::uint32_t>(net.draw(0, 3));
    const duration at = std::chrono::microseconds(net.draw(1, 3000)), later = std::chrono::microseconds(net.draw(1, 500));
    const auto disturbed = run_in_world(j, c, {}, [&](sim::world& w) { crash_and_restart(w, node, at, later); });
    const auto error = disturbed.error();
    ASSERT_TRUE(disturbed.done) << "seed " << seed << ", node n" << node + 1;
    if (!error.empty()) {
      ++named;
      ASSERT_NE(error.find("n" + std::to_string(node + 1)), std::string::npos) << error << ", seed " << seed;
      const bool alone_has_it = std::any_of(j->plan.roles.begin(), j->plan.roles.end(), [&](const role_plan& r) {
        return r.node == node && (r.kind == role_kind::shard || r.kind == role_kind::coordinator);
      });
      ASSERT_TRUE(alone_has_it || !restarts) << error << ", seed " << seed;
      continue;
    }
    ++whole;
    ASSERT_EQ(disturbed.weights.size(), undisturbed.weights.size());
    if (!feature || restarts) {
      ASSERT_EQ(disturbed.bytes(), undisturbed.bytes()) << "seed " << seed;
    }
  }
  EXPECT_GT(named, 0u);
  EXPECT_GT(whole, 0u);
  EXPECT_GT(gathered, 0u);
}

TEST(partition_laws, restarted_node_ends_the_job_by_name_or_loses_nothing) { restart_nodes(false); }
TEST(partition_laws, restarted_node_ends_the_job_only_if_it_had_unique_state) { restart_nodes(true); }

}  // namespace
}  // namespace troupe::testing
