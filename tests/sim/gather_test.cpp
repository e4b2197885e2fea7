// Layers with gather = true: the packets of a step are computed as one, with the same bits as
// packet by packet.
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

struct gather_outcome {
  std::string bytes;
  int gradients = 0;  // gradient messages of linear layers
};

gather_outcome run_on_one_node(const job_spec& spec) {
  auto made = prepare_job(spec, shared_tables(), nodes_named(1));
  if (!made) {
    ADD_FAILURE() << made.error().front().to_string();
    return {};
  }
  const auto j = *made;
  gather_outcome o;
  const std::shared_ptr<device> dev = make_cpu_device();
  sim::world_config c;
  c.dev = dev.get();
  const auto got = run_in_world(j, c, [&](const envelope& e, sim::random&) {
    if (const auto* g = std::get_if<gradient>(&e.body)) o.gradients += j->graph.layers[g->layer].type == "linear" ? 1 : 0;
    return 1;
  });
  EXPECT_TRUE(got.done && !got.weights.empty()) << (got.events.empty() ? "" : message_of(got.events.back()));
  o.bytes = got.bytes();
  return o;
}

TEST(gather, sends_one_gradient_per_step_with_the_same_bits) {
  const auto apart = run_on_one_node(split_net(false)), together = run_on_one_node(split_net(true));
  EXPECT_EQ(apart.bytes, together.bytes);
  EXPECT_GT(together.gradients, 0);
  EXPECT_EQ(apart.gradients, 4 * together.gradients);
}

TEST(gather, random_gather_flags_change_no_bit) {
  int flagged = 0;
  for (std::uint64_t seed = 1; flagged < static_cast<int>(seeds(150)); ++seed) {
    random_net net(seed);
    auto j = net.job();
    j.pipeline.sub_solvers = j.pipeline.packets;
    const auto apart = run_on_one_node(j);
    if (!net.gather(j, 0.7)) continue;
    j.pipeline.sub_solvers = j.pipeline.packets;
    ++flagged;
    ASSERT_EQ(apart.bytes, run_on_one_node(j).bytes) << "seed " << seed;
  }
}

// The stage of `score` on worker 0, which gathers packets 0 and 1, driven message by message.
struct driven {
  std::shared_ptr<prepared_job> j;
  std::unique_ptr<role> stage;
  role_id self = no_role;
  std::vector<std::string> said;  // messages sent in reaction to the last message
  std::vector<run_effect> jobs;

  driven() {
    auto spec = split_net(true);
    for (auto& l : spec.layers) l.partition = "batch", l.key_at.erase("partition");
    j = prepare_job(spec, shared_tables(), nodes_named(1)).value();
    for (const auto& r : j->plan.roles)
      if (r.name == "worker0/score") self = r.id;
    stage = make_role(j, self);
  }
  const graph_layer& layer() const { return j->graph.layers[j->plan[self].layers[0]]; }
  void say(std::uint32_t packet, std::uint64_t version, message m) {
    envelope e;
    e.h.dst = self;
    e.h.id = msg_id{packet + 1};
    e.h.packet = packet;
    e.h.packets = 4;
    e.h.version = version;
    const auto& me = j->plan[self];
    if (std::holds_alternative<forward>(m)) e.h.src = j->plan.edges[me.in_edges[0]].from;
    if (std::holds_alternative<backward>(m)) e.h.src = j->plan.edges[me.out_edges[0]].to;
    if (std::holds_alternative<layer_weights>(m)) e.h.src = j->plan.workers[0];
    e.body = std::move(m);
    effects out;
    stage->on(e, {}, out);
    said.clear(), jobs.clear();
    for (auto& f : out.list()) {
      if (auto* r = std::get_if<run_effect>(&f)) jobs.push_back(std::move(*r));
      const auto* s = std::get_if<send_effect>(&f);
      if (!s || std::holds_alternative<credit>(s->e.body) || std::holds_alternative<report>(s->e.body)) continue;
      said.push_back(std::string(name_of(s->e.body)) + " " + std::to_string(s->e.h.packet) +
                     ((s->e.h.flags & flag_void) != 0 ? " void" : ""));
    }
  }
  void weights(std::uint64_t version) {
    tensors values;
    for (auto p : layer().params) values.push_back(tensor::declare(j->graph.params[p].spec.dims, dtype::f32));
    say(0, version, layer_weights{layer().index, values});
  }
  void forward_of(std::uint32_t packet) { say(packet, 0, forward{tensor::declare(layer().in[0], dtype::f32), 2, 2 * packet}); }
  void backward_of(std::uint32_t packet) { say(packet, 0, backward{tensor::declare(layer().out[0], dtype::f32)}); }
};

TEST(gather, packets_wait_for_each_other_and_leave_separately) {
  using strings = std::vector<std::string>;
  driven d;
  d.weights(0);
  d.forward_of(1);
  EXPECT_EQ(d.said, strings{});
  EXPECT_TRUE(d.jobs.empty());
  EXPECT_EQ(d.stage->status().waits_for, "the other packets of step 0");
  d.forward_of(0);
  ASSERT_EQ(d.jobs.size(), 1u);
  d.say(0, 0, finished{d.jobs[0].token});
  EXPECT_EQ(d.said, (strings{"forward 0", "forward 1"}));
  d.backward_of(0);
  EXPECT_TRUE(d.jobs.empty());
  d.backward_of(1);
  ASSERT_EQ(d.jobs.size(), 1u);
  d.say(0, 0, finished{d.jobs[0].token});
  EXPECT_EQ(std::count(d.said.begin(), d.said.end(), "backward 0") + std::count(d.said.begin(), d.said.end(), "backward 1"), 2);
}

// The packet's step is over meanwhile. The remaining packets arrive void.
TEST(gather, packet_does_not_wait_for_packets_of_a_finished_step) {
  using strings = std::vector<std::string>;
  driven d;
  d.weights(0);
  d.forward_of(0);
  d.weights(1);
  EXPECT_EQ(d.said, strings{"forward 0 void"});
  d.forward_of(1);
  EXPECT_EQ(d.said, strings{"forward 1 void"});
  driven e;
  e.weights(0);
  e.forward_of(0);
  e.forward_of(1);
  ASSERT_EQ(e.jobs.size(), 1u);
  e.say(0, 0, finished{e.jobs[0].token});
  e.backward_of(1);
  e.weights(1);
  EXPECT_EQ(e.said, strings{"backward 1 void"});
  e.backward_of(0);
  EXPECT_EQ(e.said, strings{"backward 0 void"});
}

TEST(gather, is_refused_if_packets_cannot_be_computed_together) {
  auto j = split_net(true);
  j.layers[0].gather = true;
  j.layers[0].key_at["gather"] = {"job.toml", 3, 1};
  EXPECT_EQ(refusal(j),
            "job.toml:3:1: layer 'conv1': gather = true needs a layer that can compute several packets as one (linear), not "
            "convolution");
  j = split_net(true);
  for (auto& l : j.layers) l.recompute = l.gather;
  EXPECT_NE(refusal(j).find("job.toml:7:3: layer 'left': gather = true cannot be combined with recompute = true"),
            std::string::npos)
      << refusal(j);
  j = split_net(true);
  j.pipeline.weights = "stash";
  EXPECT_NE(refusal(j).find("gather = true needs the same weights for all packets of a step"), std::string::npos) << refusal(j);
  j = split_net(true, 4, 1);
  j.pipeline.sub_solvers = 2;
  EXPECT_NE(
      refusal(j).find("layer 'left': gather = true computes the packets of a step as one, so all of them must be in flight: a "
                      "worker has 4, but pipeline.sub_solvers = 2"),
      std::string::npos)
      << refusal(j);
  j = split_net(true, 6, 2);
  for (auto& l : j.layers) l.partition = "batch", l.key_at.erase("partition");
  EXPECT_NE(
      refusal(j).find("gather = true requires that the packets of a part are one node of the packet tree: 3 packets from packet "
                      "0 are not (use a power of two)"),
      std::string::npos)
      << refusal(j);
  j = split_net(true);
  for (auto& l : j.layers) l.partition = "batch", l.key_at.erase("partition");
  EXPECT_EQ(refusal(j), "");
  j.train.sync.kind = "ssp";
  EXPECT_NE(refusal(j).find("the packets of a step cannot compute layer 'left' together"), std::string::npos) << refusal(j);
}

TEST(gather, gathering_stages_host_only_gathering_layers) {
  auto j = split_net(true);
  j.pipeline.fuse = "auto";
  auto made = prepare_job(j, shared_tables(), nodes_named(1));
  ASSERT_TRUE(made) << refusal(j);
  const auto& p = **made;
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
