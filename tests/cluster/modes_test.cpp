// Every synchronisation mode on real daemons: a part of an epoch of LeNet on Fashion-MNIST must
// reach an accuracy that untrained and diverging nets do not reach. tests/nightly runs five epochs.
// Also SINGA's presets on their clusters, and a mode of a plugin.
#include "tests/cluster/modes.hpp"

#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {
namespace {

std::vector<std::string> shortened(std::vector<std::string> set, int steps) {
  set.push_back("train.finish={steps=" + std::to_string(steps) + "}");
  set.emplace_back("eval.sampler={kind=\"sample\",examples=1000}");
  return set;
}

class cluster_modes : public cluster_test {
 protected:
  run_result good_run(const std::string& text, const std::vector<std::string>& set) {
    auto r = run(text, set);
    EXPECT_EQ(r.outcome.how, cluster_outcome::end::done) << (r.outcome.messages.empty() ? "" : r.outcome.messages.front());
    if (r.events.empty() || !r.events.back().event.is<done_event>())
      ADD_FAILURE() << (r.events.empty() ? "no events" : message_of(r.events.back().event));
    return r;
  }
};

TEST_F(cluster_modes, every_mode_trains_lenet_on_four_daemons) {
  make_cluster(4);
  start_all();
  const auto modes = modes_for_four_nodes();
  EXPECT_EQ(modes.size(), 9u) << "all stock modes, with hogwild on nodes only";
  for (const auto& [name, set] : modes) {
    SCOPED_TRACE(name);
    const auto begun = clock::now();
    const auto r = good_run(config_text("lenet_modes.toml"), shortened(set, 150));
    std::printf("%s: accuracy %.3f after 150 steps, %.1f s\n", name.c_str(), r.value("test_accuracy"),
                std::chrono::duration<double>(clock::now() - begun).count());
    EXPECT_GE(r.value("test_accuracy"), 0.65);
    EXPECT_EQ(r.value("steps"), 150);
    EXPECT_GT(r.value("tcp_bytes"), 1e6) << "roles ran on more than one node";
  }
}

// Platoon's setting: two workers, alpha 0.5, tau 10.
TEST_F(cluster_modes, easgd_trains_with_the_settings_of_platoon) {
  make_cluster(2);
  start_all();
  auto set = documented_modes().at("easgd");
  set.emplace_back("train.sync={mode=\"easgd\",alpha=0.5,tau=10}");
  set.emplace_back("topology.workers_per_group=2");
  const auto r = good_run(config_text("lenet_modes.toml"), shortened(set, 150));
  EXPECT_GE(r.value("test_accuracy"), 0.65);
  EXPECT_EQ(r.count("staleness"), 1u);
}

TEST_F(cluster_modes, singas_presets_run_on_separate_server_and_worker_nodes) {
  make_cluster_like("separate.toml");
  start_all();
  for (const char* file : {"singa_sandblaster.toml", "singa_downpour.toml"}) {
    SCOPED_TRACE(file);
    const auto r = good_run(config_text(file), shortened({}, 80));
    EXPECT_GE(r.value("test_accuracy"), 0.5);
    EXPECT_GT(r.value("tcp_bytes"), 1e7);
  }
}

TEST_F(cluster_modes, singas_presets_run_on_nodes_that_are_server_and_worker) {
  make_cluster_like("local3.toml");
  start_all();
  for (const char* file : {"singa_allreduce.toml", "singa_hogwild.toml"}) {
    SCOPED_TRACE(file);
    const auto r = good_run(config_text(file), shortened({}, 80));
    EXPECT_GE(r.value("test_accuracy"), 0.5);
    EXPECT_GT(r.value("tcp_bytes"), 1e6);
  }
}

// The cluster file names the plugin. The job names it too, so that it also runs elsewhere.
TEST_F(cluster_modes, a_plugins_mode_trains_on_daemons) {
  const auto plugin = std::string(TROUPE_BIN_DIR) + "/../lib/plugins/libtest_plugin_fading.so";
  if (!std::filesystem::exists(plugin)) GTEST_SKIP() << "the test plugins are not built";
  plugins_ = {plugin};
  make_cluster(2);
  start_all();
  auto set = workers(2, 2);
  set.emplace_back("train.sync={mode=\"fading\",tau=2}");
  set.emplace_back("train.finish={steps=200}");
  const auto r = good_run("plugins = [\"" + plugin + "\"]\n" + tiny_job(), set);
  EXPECT_GE(r.value("test_accuracy"), 0.6) << "chance is 0.25";
}

}  // namespace
}  // namespace troupe::testing_cluster
