// An autoencoder: two branches of unequal length lead from the data to a loss that has no other
// input from the loader. However packets overtake each other, in training and evaluation, the
// branches never fill the loss with inputs of different packets.
#include "runtime/plain/plain_loop.hpp"
#include "tests/sim/chain_job.hpp"

namespace troupe::testing {
namespace {

job_spec autoencoder() {
  using i = std::int64_t;
  auto j = small_spec({});
  j.data.values = checked(with({{"shape", std::vector<i>{6}}, {"classes", i{4}}, {"examples", i{64}}, {"test_examples", i{300}}}),
                          shared_tables()->sources.find("synthetic")->specs);
  j.layers.clear();
  const auto add = [&](const char* name, const char* type, std::vector<std::string> inputs, options o = {}) {
    j.layers.push_back(layer_of(name, type, std::move(inputs), std::move(o)));
  };
  add("pixels", "flatten", {"data"});
  add("up", "linear", {"data"}, with({{"outputs", i{3}}}));
  add("code", "sigmoid", {"up"});
  for (const auto* last = "code"; const auto* next : {"a", "b", "c", "d", "e", "f"}) add(next, "tanh", {last}), last = next;
  add("down", "linear", {"f"}, with({{"outputs", i{6}}}));
  add("image", "tanh", {"down"});
  add("loss", "euclidean", {"image", "pixels"});
  add("error", "squared_error", {"image", "pixels"});
  j.layers.back().phase = "test";
  j.pipeline.fuse = "none";
  j.eval.every = 1;
  return j;
}

TEST(joins, branches_of_unequal_length_never_deadlock) {
  const std::shared_ptr<device> dev = make_cpu_device();
  for (std::uint64_t seed = 1; seed <= seeds(200); ++seed) {
    auto spec = autoencoder();
    spec.pipeline.packets = seed % 3 == 0 ? 2 : 4;
    spec.pipeline.sub_solvers = static_cast<std::int64_t>(1 + seed % 3);
    if (seed % 2 == 0)
      for (auto& l : spec.layers)
        if (l.name == "image" || l.name == "loss") l.partition = "none", l.key_at["partition"] = {}, l.place = {"n2"};
    auto made = prepare_job(spec, shared_tables(), chain_nodes(2));
    ASSERT_TRUE(made) << made.error().front().message;
    const auto j = *made;
    sim::world_config c;
    c.seed = seed;
    c.dev = dev.get();
    c.compute.floor = std::chrono::microseconds(100);
    c.compute.cores = 4;
    c.compute.kind = sim::straggle::exponential;
    c.compute.spread = seed % 5 == 0 ? 20 : 3;
    const auto got = run_in_world(j, c);
    ASSERT_TRUE(got.done && !got.weights.empty())
        << "seed " << seed << ": " << (got.events.empty() ? "" : message_of(got.events.back()));
    plain_loop loop(j, dev);
    while (loop.steps() < static_cast<std::uint64_t>(*spec.train.finish.steps)) loop.step();
    run_result want;
    want.weights = loop.weights();
    ASSERT_EQ(got.bytes(), want.bytes()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace troupe::testing
