// Layers with recompute = true: the same bits as without for any net, and less memory (Chen et al.
// 2016, section 4).
#include "tests/sim/random_net.hpp"

namespace troupe::testing {
namespace {

struct recompute_outcome {
  std::string bytes;
  std::size_t peak = 0;
};

recompute_outcome run_in_order_of(const job_spec& j, std::uint64_t seed) {
  auto made = prepare_job(j, shared_tables(), nodes_named(1));
  if (!made) {
    ADD_FAILURE() << made.error().front().to_string();
    return {};
  }
  const std::shared_ptr<device> dev = make_cpu_device();
  sim::world_config c;
  c.seed = seed;
  c.dev = dev.get();
  const auto got = run_in_world(*made, c);
  EXPECT_FALSE(got.weights.empty()) << (got.events.empty() ? "" : message_of(got.events.back()));
  return {got.bytes(), dev->pool().peak_bytes_in_use};
}

TEST(recompute, random_recompute_flags_change_no_bit) {
  int flagged = 0;
  for (std::uint64_t seed = 1; seed <= seeds(120); ++seed) {
    random_net net(seed);
    auto j = net.job();
    const auto plain = run_in_order_of(j, seed);
    net.recompute(j, static_cast<double>(net.draw(1, 10)) / 10);
    for (const auto& l : j.layers) flagged += l.recompute ? 1 : 0;
    const auto again = run_in_order_of(j, seed);
    ASSERT_EQ(plain.bytes, again.bytes) << "seed " << seed;
  }
  EXPECT_GT(flagged, 100);
}

// Forty layers on large packets; every fifth keeps its activations.
job_spec deep(bool recompute) {
  shape_of_job s;
  s.packets = 1;
  s.steps = 3;
  auto j = small_spec(s);
  j.data.values = checked(with({{"shape", std::vector<std::int64_t>{4, 32, 32}},
                                {"classes", option_value(std::int64_t{4})},
                                {"examples", option_value(std::int64_t{64})},
                                {"test_examples", option_value(std::int64_t{8})}}),
                          shared_tables()->sources.find("synthetic")->specs);
  j.data.batch = 16;
  j.layers.clear();
  std::string at = "data";
  const auto add = [&](const std::string& type, options o = {}) {
    const auto name = type + std::to_string(j.layers.size());
    j.layers.push_back(layer_of(name, type, {at}, std::move(o)));
    at = name;
  };
  for (int k = 0; k < 16; ++k) {
    add("convolution", with({{"outputs", std::int64_t{4}}, {"kernel", std::int64_t{3}}, {"pad", std::int64_t{1}}}));
    add("tanh");
    if (k % 2 == 0) add("dropout", with({{"ratio", 0.1}}));
  }
  for (std::size_t l = 0; l < j.layers.size(); ++l) j.layers[l].recompute = recompute && l % 5 != 4;
  add("linear", with({{"outputs", std::int64_t{4}}}));
  j.layers.push_back(layer_of("loss", "softmax_loss", {at, "label"}));
  return j;
}

TEST(recompute, peak_memory_falls) {
  const auto plain = run_in_order_of(deep(false), 1), again = run_in_order_of(deep(true), 1);
  EXPECT_EQ(plain.bytes, again.bytes);
  EXPECT_LT(static_cast<double>(again.peak), 0.75 * static_cast<double>(plain.peak));
}

// Running statistics are folded once although forward runs twice.
TEST(recompute, running_statistics_are_sent_once) {
  for (const bool eval : {false, true}) {
    shape_of_job s;
    s.eval_every = eval ? 2 : 0;
    auto j = small_spec(s);
    j.layers.insert(j.layers.begin() + 1, layer_of("norm", "batch_norm", {"conv1"}));
    j.layers[2].inputs = {"norm"};
    const auto plain = run_in_order_of(j, 1);
    for (auto& l : j.layers) l.recompute = l.name == "norm" || l.name == "conv1" || l.name == "relu1";
    EXPECT_EQ(plain.bytes, run_in_order_of(j, 1).bytes);
  }
}

TEST(recompute, is_refused_for_layers_that_compute_with_other_packets) {
  shape_of_job s;
  s.sub_solvers = 4;
  auto j = small_spec(s);
  j.layers.insert(j.layers.begin() + 1, layer_of("norm", "batch_norm", {"conv1"}, with({{"stats", std::string("batch")}})));
  j.layers[2].inputs = {"norm"};
  ASSERT_EQ(refusal(j), "");
  j.layers[1].recompute = true;
  j.layers[1].key_at["recompute"] = {"job.toml", 7, 3};
  EXPECT_EQ(refusal(j),
            "job.toml:7:3: layer 'norm': recompute = true is not supported for layers that compute several packets together");
}

TEST(recompute, is_refused_if_backward_has_other_weights) {
  auto j = small_spec({});
  j.pipeline.weights = "latest";
  j.layers[1].recompute = true;  // relu has no weights
  EXPECT_EQ(refusal(j), "");
  j.layers[0].recompute = true;
  EXPECT_NE(refusal(j).find("layer 'conv1': recompute = true needs the weights of its forward in backward"), std::string::npos);
}

}  // namespace
}  // namespace troupe::testing
