// Five epochs in every mode reach the accuracy that configs/jobs/lenet_modes.toml states, on four
// real daemons and, for workers that share memory, in one process.
#include "tests/cluster/modes.hpp"

#include "actors/embedded.hpp"
#include "runtime/job/job.hpp"
#include "runtime/node/config/job_file.hpp"
#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {
namespace {

constexpr double bar = 0.87;

// Test accuracy of an embedded run; -1 if it fails.
double embedded_accuracy(const std::vector<std::string>& set) {
  const auto all = std::make_shared<const tables>(stock_tables());
  auto spec = parse_job(config_text("lenet_modes.toml"), "lenet_modes.toml", *all, set);
  node_spec local;
  local.name = "local";
  if (!spec) return ADD_FAILURE() << spec.error().front().to_string(), -1;
  auto made = prepare_job(*std::move(spec), all, {local});
  if (!made) return ADD_FAILURE() << made.error().front().to_string(), -1;
  embedded_options o;
  o.threads = 2;
  embedded_run run(*made, o);
  const auto r = run.run();
  EXPECT_TRUE(r.ok) << r.error;
  return r.done.test_accuracy.value_or(-1);
}

class nightly_modes : public cluster_test {};

TEST_F(nightly_modes, every_mode_reaches_its_accuracy_on_four_daemons) {
  make_cluster(4);
  start_all();
  for (const auto& [name, set] : modes_for_four_nodes()) {
    SCOPED_TRACE(name);
    const auto r = run(config_text("lenet_modes.toml"), set);
    std::printf("%s: %.4f after five epochs on four daemons\n", name.c_str(), r.value("test_accuracy"));
    EXPECT_GE(r.value("test_accuracy"), bar) << (r.events.empty() ? "" : message_of(r.events.back().event));
  }
}

TEST_F(nightly_modes, hogwild_reaches_its_accuracy_in_shared_memory) {
  const auto modes = documented_modes();
  for (const char* name : {"hogwild", "hogwild_nodes"}) EXPECT_GE(embedded_accuracy(modes.at(name)), bar) << name;
}

// Two threads on one array, compared with bsp with two workers; mean of three seeds.
TEST_F(nightly_modes, hogwild_with_two_threads_is_as_accurate_as_bsp) {
  double bsp = 0, hogwild = 0;
  for (int seed = 1; seed <= 3; ++seed) {
    const std::vector<std::string> common{"job.seed=" + std::to_string(seed), "topology.workers_per_group=2"};
    bsp += embedded_accuracy(common) / 3;
    auto set = documented_modes().at("hogwild");
    set.insert(set.end(), common.begin(), common.end());
    set.emplace_back("train.dynamics.lr=0.01");
    hogwild += embedded_accuracy(set) / 3;
  }
  std::printf("two workers, three seeds: bsp %.4f, hogwild %.4f\n", bsp, hogwild);
  EXPECT_GE(hogwild, bsp - 0.01);
}

}  // namespace
}  // namespace troupe::testing_cluster
