// Names of devices, and the assignment of roles to devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/device_descriptors.hpp"
#include "runtime/plan/plan_check.hpp"
#include "tests/sim/small_job.hpp"

namespace troupe::testing {
namespace {

using ::testing::ElementsAre;

TEST(device_names, cpu_threads_are_one_device) {
  EXPECT_THAT(different_devices({"cpu:0", "cpu:1", "cpu:7"}), ElementsAre(0));
  EXPECT_THAT(different_devices({"gpu:1", "cpu:0", "gpu:0", "cpu:1"}), ElementsAre(0, 1, 2));
  const auto made = make_devices({"cpu:0", "cpu:1"});
  ASSERT_EQ(made.size(), 2u);
  ASSERT_TRUE(made[0]);
  EXPECT_EQ(made[0], made[1]);
  EXPECT_EQ(numerics_of(made), made[0]->numerics_id()) << "the id of a node contains each of its devices once";
}

TEST(device_names, name_is_a_kind_and_a_number) {
  EXPECT_EQ(parse_device("cpu:12").kind, "cpu");
  EXPECT_EQ(parse_device("cpu:12").number, 12);
  for (const char* bad : {"", "cpu", "cpu:", "cpu:-1", "cpu:+1", "cpu:1x", "cpu:00000", ":"})
    EXPECT_LT(parse_device(bad).number, 0) << bad;
}

job_plan plan_on(std::vector<std::vector<std::string>> devices, std::uint32_t workers, std::uint32_t shards) {
  shape_of_job s;
  s.workers = workers, s.shards = shards, s.packets = workers;
  std::vector<node_spec> nodes(devices.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i].name = "n" + std::to_string(i), nodes[i].devices = devices[i];
  const auto j = std::get<std::shared_ptr<prepared_job>>(prepare_job(small_spec(s), shared_tables(), nodes));
  EXPECT_TRUE(check_plan(j->plan, j->graph).empty());
  return j->plan;
}

TEST(plan_devices, workers_and_shards_take_turns_and_a_worker_has_one_device) {
  const auto p = plan_on({{"gpu:0", "gpu:1", "cpu:0", "cpu:1"}, {"cpu:0", "cpu:1"}}, 6, 4);
  std::vector<std::uint32_t> of_worker, of_shard;
  for (auto w : p.workers) of_worker.push_back(p[w].device);
  for (auto s : p.shards) of_shard.push_back(p[s].device);
  EXPECT_THAT(of_worker, ElementsAre(0, 0, 1, 0, 2, 0)) << "node 0: gpu:0, gpu:1, the CPU; node 1: always its CPU";
  EXPECT_THAT(of_shard, ElementsAre(0, 0, 1, 0));
  EXPECT_EQ(p.roles[0].device, 0u);
  for (std::size_t w = 0; w < p.workers.size(); ++w) {
    EXPECT_EQ(p[p.loaders[w]].device, of_worker[w]);
    for (auto s : p.stages[w]) EXPECT_EQ(p[s].device, of_worker[w]);
  }
}

TEST(plan_devices, role_on_a_device_that_its_node_does_not_offer_is_a_fault) {
  shape_of_job s;
  const auto j = prepare(s);
  j->plan.roles.back().device = 1;
  const auto faults = check_plan(j->plan, j->graph);
  ASSERT_FALSE(faults.empty());
  EXPECT_NE(faults[0].text.find("uses a device that its node does not have"), std::string::npos) << faults[0].text;
}

}  // namespace
}  // namespace troupe::testing
