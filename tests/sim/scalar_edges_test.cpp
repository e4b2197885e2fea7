// A tensor without a batch dimension between stages: it does not determine how many examples its
// packet has.
#include <numeric>

#include "ops/layer_support.hpp"
#include "ops/tensor_values.hpp"
#include "runtime/plain/plain_loop.hpp"
#include "tests/sim/small_job.hpp"

namespace troupe::testing {
namespace {

// Returns the sum of all elements, computed on the host.
double sum_of(device& d, const tensor& t) {
  const auto here = at_home(d, t);
  return std::accumulate(here.data<float>(), here.data<float>() + here.count(), 0.0);
}

// The mean of all elements.
struct mean_layer final : layer {
  shapes infer(const shapes&) const override { return {shape{}}; }
  signatures supported() const override { return alike({distribution::broadcast}, 1); }
  void forward(context& c, plan&, const tensors& in, const tensors&, tensors& out, saved&) const override {
    c.dev.fill(sum_of(c.dev, in[0]) / static_cast<double>(in[0].count()), backed(c.dev, out[0]));
  }
  void backward(context& c, plan&, const saved&, const tensors&, const tensors& grad_out, tensors& grad_in, tensors&,
                bool) const override {
    c.dev.fill(sum_of(c.dev, grad_out[0]) / static_cast<double>(grad_in[0].count()), backed(c.dev, grad_in[0]));
  }
};

// Input 0 plus the scalar input 1.
struct shifted_layer final : layer {
  shapes infer(const shapes& in) const override { return {in[0]}; }
  signatures supported() const override { return alike({distribution::broadcast}, 2); }
  void forward(context& c, plan&, const tensors& in, const tensors&, tensors& out, saved&) const override {
    auto& y = backed(c.dev, out[0]);
    c.dev.fill(sum_of(c.dev, in[1]), y);
    c.dev.axpy(1, in[0], y);
  }
  void backward(context& c, plan&, const saved&, const tensors&, const tensors& grad_out, tensors& grad_in, tensors&,
                bool) const override {
    c.dev.copy(grad_out[0], backed(c.dev, grad_in[0]));
    c.dev.fill(sum_of(c.dev, grad_out[0]), backed(c.dev, grad_in[1]));
  }
};

std::shared_ptr<const tables> tables_with_scalars() {
  auto t = stock_tables();
  t.layers.add({.name = "mean",
                .doc = "",
                .specs = {},
                .make = [](const options&) { return std::make_unique<mean_layer>(); },
                .cases = {},
                .min_inputs = 1,
                .max_inputs = 1});
  t.layers.add({.name = "shifted",
                .doc = "",
                .specs = {},
                .make = [](const options&) { return std::make_unique<shifted_layer>(); },
                .cases = {},
                .min_inputs = 2,
                .max_inputs = 2});
  return std::make_shared<const tables>(std::move(t));
}

// The mean of a packet depends on the number of packets, but not on which worker computes it.
TEST(scalar_edges, scalar_input_does_not_change_a_packets_example_count) {
  auto spec = small_spec({.packets = 4, .workers = 2, .sub_solvers = 2, .steps = 5, .eval_every = 5});
  const auto plain_layer = [](std::string name, std::string type, std::vector<std::string> inputs) {
    layer_spec l;
    l.name = std::move(name), l.type = std::move(type), l.inputs = std::move(inputs);
    return l;
  };
  for (auto& l : spec.layers)
    for (auto& in : l.inputs)
      if (in == "score") in = "by";
  spec.layers.push_back(plain_layer("middle", "mean", {"score"}));
  spec.layers.push_back(plain_layer("by", "shifted", {"score", "middle"}));
  node_spec here;
  here.name = "local";
  auto made = prepare_job(spec, tables_with_scalars(), {here});
  if (!made) FAIL() << made.error().front().to_string();
  const auto job = *made;
  plain_loop plain(job, make_cpu_device());
  while (plain.steps() < 5) plain.step();
  const auto want = plain.weights();
  for (std::uint64_t seed = 1; seed < 4; ++seed) {
    const auto dev = make_cpu_device();
    sim::world_config config;
    config.seed = seed;
    config.dev = dev.get();
    const auto got = run_in_world(job, config);
    ASSERT_EQ(got.error(), "");
    ASSERT_EQ(got.weights.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_EQ(std::memcmp(got.weights[i].second.raw(), want[i].second.raw(), want[i].second.bytes()), 0) << want[i].first;
  }
}

}  // namespace
}  // namespace troupe::testing
