// Names of devices, and the assignment of roles to devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/device_descriptors.hpp"
#include "runtime/job/amend.hpp"
#include "runtime/plan/plan_check.hpp"
#include "tests/error_text.hpp"
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
  const auto j = prepare_job(small_spec(s), shared_tables(), nodes).value();
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

expected<std::shared_ptr<prepared_job>, diagnostics> placed_job(const std::vector<std::string>& place,
                                                                const std::vector<double>& fraction, std::int64_t packets,
                                                                const std::string& partition = "batch") {
  shape_of_job s;
  s.packets = static_cast<std::uint32_t>(packets);
  auto spec = small_spec(s);
  spec.data.batch = packets;
  spec.data.values.values["examples"] = std::int64_t{2} * packets;
  spec.layers.front().place = place, spec.layers.front().fraction = fraction, spec.layers.front().partition = partition;
  spec.layers.front().key_at["partition"] = {};
  node_spec n;
  n.name = "local", n.devices = {"gpu:0", "cpu:0", "cpu:1"};
  return prepare_job(spec, shared_tables(), {n});
}

TEST(plan_devices, parts_of_a_layer_are_on_the_devices_of_their_places_and_so_are_the_layers_that_follow) {
  const auto j = placed_job({"local/gpu:0", "local/cpu:1"}, {0.75, 0.25}, 16).value();
  const auto& p = j->plan;
  EXPECT_TRUE(check_plan(p, j->graph).empty());
  std::vector<std::pair<std::uint32_t, std::uint32_t>> of_conv1;  // packets, device
  for (const auto& r : p.roles) {
    if (!r.trains()) continue;
    EXPECT_EQ(r.device, p[p.workers[r.worker]].device) << r.name;
    if (r.layers.front() == 0) of_conv1.emplace_back(r.packets.count, r.device);
  }
  EXPECT_THAT(of_conv1, ElementsAre(std::pair(12u, 0u), std::pair(4u, 1u))) << "cpu:1 is the same device as cpu:0";
  for (const auto& e : p.edges) {
    if (e.what.layer < 0) continue;
    EXPECT_EQ(p[e.from].device, p[e.to].device) << "nothing is copied between neighbours";
  }
}

TEST(plan_devices, con_trolls_batch_of_256_is_split_over_a_gpu_and_sixteen_parts_of_the_cpu) {
  std::vector<std::string> place{"local/gpu:0"};
  std::vector<double> fraction{0.6};
  for (int k = 0; k < 16; ++k) place.emplace_back("local/cpu:0"), fraction.push_back(0.4 / 16);
  const auto packets_on = [](const job_plan& p) {
    std::vector<std::uint32_t> sums(3);
    for (const auto& r : p.roles)
      if (r.kind == role_kind::stage && r.layers.front() == 0) sums[r.device] += r.packets.count;
    return sums;
  };
  const auto many = placed_job(place, fraction, 256).value();
  EXPECT_THAT(packets_on(many->plan), ElementsAre(160, 96, 0));
  const auto two = placed_job({"local/gpu:0", "local/cpu:0"}, {200.0 / 256, 56.0 / 256}, 256).value();
  EXPECT_THAT(packets_on(two->plan), ElementsAre(200, 56, 0));
}

TEST(plan_devices, shard_of_a_placed_layer_is_on_its_device) {
  const auto j = placed_job({"local/cpu:0"}, {}, 4, "none").value();
  const auto& p = j->plan;
  for (const auto& b : p.blocks) {
    const auto& of = j->graph.layers[j->graph.params[b.param].layer].name;
    ASSERT_EQ(b.takers.size(), 1u) << of;
    EXPECT_EQ(p[b.shard].device, p[p.workers[b.takers[0]]].device) << of;
    EXPECT_EQ(p[b.shard].device, 1u) << of;
  }
}

TEST(plan_devices, place_on_a_device_that_its_node_does_not_list_is_refused) {
  const auto made = placed_job({"local/gpu:1"}, {}, 4);
  const auto& bad = made.error();
  EXPECT_EQ(bad.front().message, "layer 'conv1': place 'local/gpu:1': the devices of node 'local' are gpu:0, cpu:0, cpu:1");
}

TEST(plan_devices, move_keeps_the_devices_of_the_other_parts) {
  const auto j = placed_job({"local/gpu:0", "local/cpu:1"}, {0.75, 0.25}, 16).value();
  const auto moved = [&](const std::string& layer, const std::string& to) { return amended(*j, {}, {move_command{layer, to}}); };
  EXPECT_THAT(moved("conv1.1", "local/gpu:0")->layers.back().place, ElementsAre("local/gpu:0", "local/gpu:0"));
  EXPECT_THAT(moved("relu1.0", "local/cpu:0")->layers.back().place, ElementsAre("local/cpu:0", "local/cpu:1"))
      << "relu1 follows conv1";
  EXPECT_EQ(test::error_text(moved("conv1.1", "local/cpu:1")), "layer 'conv1.1' is on local/cpu:1 already");
  EXPECT_EQ(test::error_text(moved("conv1.1", "local")), "layer 'conv1.1' is on local/cpu:1 already");
  EXPECT_EQ(test::error_text(moved("conv1.1", "local/gpu:9")), "the devices of node 'local' are gpu:0, cpu:0, cpu:1");
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
