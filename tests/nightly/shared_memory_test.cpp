// Long jobs on daemons of one machine, which use shared buffers, in parallel with two threads that
// take processor time: each job ends and no message is lost. TROUPE_CAMPAIGN_RUNS (1),
// TROUPE_CAMPAIGN_SMALL_STEPS (2000) and TROUPE_CAMPAIGN_LENET_STEPS (200) set the amount of work;
// scripts/nightly runs the whole campaign. One mode on four daemons:
// --gtest_filter='*nightly_shared_memory*gossip_on_4'.
#include <atomic>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/cluster/modes.hpp"
#include "tests/cluster/processes.hpp"
#include "tests/environment.hpp"

namespace troupe::testing_cluster {
namespace {

class busy_threads {
 public:
  busy_threads() {
    for (auto& t : threads_)
      t = std::thread([this] {
        while (!stop_) ++turns_;
      });
  }
  ~busy_threads() {
    stop_ = true;
    for (auto& t : threads_) t.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> turns_{0};
  std::thread threads_[2];
};

// Settings of the mode with a worker on each of `nodes`.
std::vector<std::string> settings(const std::string& mode, int nodes) {
  const auto n = std::to_string(nodes);
  const bool groups = mode == "gossip" || mode == "hogwild";
  const auto topology = groups ? "worker_groups=" + n + ",workers_per_group=1" + (mode == "hogwild" ? ",server_groups=" + n : "")
                               : "worker_groups=1,workers_per_group=" + n + ",servers_per_group=" + n;
  auto set = documented_modes().at(mode == "hogwild" ? "hogwild_nodes" : mode);
  set.push_back("topology={" + topology + "}");
  return set;
}

class nightly_shared_memory : public cluster_test, public testing::WithParamInterface<std::pair<std::string, int>> {
 protected:
  void ends(const char* file, std::uint64_t steps) {
    auto set = settings(GetParam().first, GetParam().second);
    set.push_back("train.finish={steps=" + std::to_string(steps) + "}");
    set.emplace_back("eval.every=0");
    const auto begun = clock::now();
    const auto r = run(config_text(file), set);
    ASSERT_FALSE(r.events.empty()) << (r.outcome.messages.empty() ? "" : r.outcome.messages.front());
    EXPECT_TRUE(r.events.back().event.is<done_event>()) << message_of(r.events.back().event);
    EXPECT_EQ(r.value("steps"), static_cast<double>(steps));
    std::printf("%s on %d daemons, %s: %.0f steps in %.1f s\n", GetParam().first.c_str(), GetParam().second, file, r.value("steps"),
                std::chrono::duration<double>(clock::now() - begun).count());
  }
};

TEST_P(nightly_shared_memory, every_job_ends_without_unreadable_messages) {
  make_cluster(GetParam().second);
  start_all();
  const busy_threads beside;
  for (auto left = from_environment("TROUPE_CAMPAIGN_RUNS", 1); left > 0 && !HasFailure(); --left) {
    ends("lenet_synthetic.toml", from_environment("TROUPE_CAMPAIGN_SMALL_STEPS", 2000));
    ends("lenet_modes.toml", from_environment("TROUPE_CAMPAIGN_LENET_STEPS", 200));
  }
  for (const auto& node : names_) {
    const auto status = nlohmann::json::parse(ask(node, "status", true).text);
    EXPECT_EQ(status["dropped"]["unreadable"], 0) << node;
  }
}

std::vector<std::pair<std::string, int>> modes_and_nodes() {
  std::vector<std::pair<std::string, int>> all;
  for (const char* mode : {"gossip", "hogwild", "easgd", "ssp", "bsp"})
    for (const int nodes : {3, 4}) all.emplace_back(mode, nodes);
  return all;
}
INSTANTIATE_TEST_SUITE_P(of, nightly_shared_memory, testing::ValuesIn(modes_and_nodes()),
                         [](const auto& p) { return p.param.first + "_on_" + std::to_string(p.param.second); });

}  // namespace
}  // namespace troupe::testing_cluster
