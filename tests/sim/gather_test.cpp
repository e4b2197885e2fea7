// Layers with gather = true: packets of a step computed as one, to the bits of packet by packet.
#include "tests/sim/random_net.hpp"

namespace troupe::testing {
namespace {

// A net whose linear layers are split between workers.
job_spec split_net(bool gather, std::uint32_t packets = 4, std::uint32_t workers = 2) {
  shape_of_job s;
  s.packets = packets;
  s.workers = workers;
  s.sub_solvers = packets;
  auto j = small_spec(s);
  for (auto& l : j.layers) {
    if (l.type != "linear") continue;
    l.partition = "feature";
    l.key_at["partition"] = {};
    l.gather = gather;
    l.key_at["gather"] = {"job.toml", 7, 3};
  }
  return j;
}

std::vector<node_spec> one_node() {
  std::vector<node_spec> list(1);
  list[0].name = "n1";
  return list;
}

std::string refusal(const job_spec& j) {
  auto made = prepare_job(j, shared_tables(), one_node());
  const auto* bad = std::get_if<diagnostics>(&made);
  return bad ? bad->front().to_string() : "";
}

struct outcome {
  std::string bytes;
  int gradients = 0;  // messages of linear layers
};

outcome run(const job_spec& spec) {
  auto made = prepare_job(spec, shared_tables(), one_node());
  if (auto* bad = std::get_if<diagnostics>(&made)) {
    ADD_FAILURE() << bad->front().to_string();
    return {};
  }
  const auto j = std::get<std::shared_ptr<prepared_job>>(made);
  outcome o;
  const std::shared_ptr<device> dev = make_cpu_device();
  sim::world_config c;
  c.dev = dev.get();
  const auto got = run_in_world(j, c, [&](const envelope& e, sim::random&) {
    if (const auto* g = std::get_if<gradient>(&e.body)) o.gradients += j->graph.layers[g->layer].type == "linear" ? 1 : 0;
    return 1;
  });
  EXPECT_TRUE(got.done && !got.weights.empty()) << (got.events.empty() ? "" : got.events.back().text);
  o.bytes = got.bytes();
  return o;
}

TEST(gather, one_gradient_a_step_in_place_of_one_a_packet_and_the_same_bits) {
  const auto apart = run(split_net(false)), together = run(split_net(true));
  EXPECT_EQ(apart.bytes, together.bytes);
  EXPECT_GT(together.gradients, 0);
  EXPECT_EQ(apart.gradients, 4 * together.gradients);
}

TEST(gather, random_flags_in_random_nets_change_no_bit) {
  int flagged = 0;
  for (std::uint64_t seed = 1; flagged < static_cast<int>(seeds(150)); ++seed) {
    random_net net(seed);
    auto j = net.job();
    j.pipeline.sub_solvers = j.pipeline.packets;
    const auto apart = run(j);
    if (!net.gather(j, 0.7)) continue;
    j.pipeline.sub_solvers = j.pipeline.packets;
    ++flagged;
    ASSERT_EQ(apart.bytes, run(j).bytes) << "seed " << seed;
  }
}

TEST(gather, refused_where_packets_cannot_meet) {
  auto j = split_net(true);
  j.layers[0].gather = true;
  j.layers[0].key_at["gather"] = {"job.toml", 3, 1};
  EXPECT_EQ(refusal(j),
            "job.toml:3:1: layer 'conv1': gather = true is for layers that can compute several packets as one (linear), not for "
            "convolution");
  j = split_net(true);
  for (auto& l : j.layers) l.recompute = l.gather;
  EXPECT_NE(refusal(j).find("job.toml:7:3: layer 'left': gather = true does not go with recompute = true"), std::string::npos)
      << refusal(j);
  j = split_net(true);
  j.pipeline.weights = "stash";
  EXPECT_NE(refusal(j).find("gather = true wants the packets of a step to meet the same weights"), std::string::npos) << refusal(j);
  j = split_net(true, 4, 1);
  j.pipeline.sub_solvers = 2;
  EXPECT_NE(refusal(j).find("layer 'left': gather = true computes the packets of a step as one, so all of them must be in flight: a "
                            "worker has 4, but pipeline.sub_solvers = 2"),
            std::string::npos)
      << refusal(j);
  j = split_net(true, 6, 2);
  for (auto& l : j.layers) l.partition = "batch", l.key_at.erase("partition");
  EXPECT_NE(refusal(j).find("gather = true wants the packets of a part to be one block of the tree of packets: 3 from packet 0 on are "
                            "not (powers of two are)"),
            std::string::npos)
      << refusal(j);
  j = split_net(true);
  for (auto& l : j.layers) l.partition = "batch", l.key_at.erase("partition");
  EXPECT_EQ(refusal(j), "");
  j.train.sync.kind = "ssp";
  EXPECT_NE(refusal(j).find("the packets of a step cannot compute layer 'left' together"), std::string::npos) << refusal(j);
}

TEST(gather, has_no_layer_in_its_stage_that_gains_nothing_from_waiting) {
  auto j = split_net(true);
  j.pipeline.fuse = "auto";
  auto made = prepare_job(j, shared_tables(), one_node());
  ASSERT_TRUE(std::holds_alternative<std::shared_ptr<prepared_job>>(made)) << refusal(j);
  const auto& p = *std::get<std::shared_ptr<prepared_job>>(made);
  int stages = 0;
  for (const auto& r : p.plan.roles) {
    const auto gathered = [&](std::uint32_t l) { return p.graph.layers[l].gather; };
    const auto count = std::count_if(r.layers.begin(), r.layers.end(), gathered);
    EXPECT_TRUE(count == 0 || r.tester || count == static_cast<std::ptrdiff_t>(r.layers.size())) << r.name;
    stages += count > 0 && !r.tester ? 1 : 0;
  }
  EXPECT_GT(stages, 0);
}

}  // namespace
}  // namespace troupe::testing
