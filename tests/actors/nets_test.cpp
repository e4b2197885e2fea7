// Tests that the large nets of configs/jobs train in actors: they have the parameters of their
// papers, finite losses, and weights that change.
#include <cmath>

#include "tests/actors/embedded_support.hpp"

namespace troupe {
namespace {

using namespace testing_embedded;

struct net {
  const char* name;
  std::int64_t parameters;   // as in the paper
  std::int64_t buffers = 0;  // running statistics, not counted as parameters
};

class nets : public ::testing::TestWithParam<net> {};

TEST_P(nets, train_two_steps) {
  const auto j =
      take(read_job_file(std::string(TROUPE_SOURCE_DIR) + "/configs/jobs/" + GetParam().name + ".toml", stock_tables(),
                         overrides{"data.batch=2", "pipeline.packets=2", "pipeline.fuse=\"auto\"", "data.examples=4",
                                   "data.test_examples=2", "eval.every=0", "train.dynamics.lr=0.001", "train.finish={steps=2}"}));
  ASSERT_NE(j, nullptr);
  EXPECT_EQ(j->graph.parameter_count, GetParam().parameters + GetParam().buffers);
  std::vector<double> losses;
  embedded_options o;
  o.on_event = [&](const event_effect& e) {
    if (!e.is<step_event>()) return;
    for (const auto& [name, value] : flatten(e).values)
      if (name == "loss") losses.push_back(value);
  };
  embedded_run run(j, o);
  const auto got = run.run();
  ASSERT_TRUE(got.ok) << got.error;
  ASSERT_EQ(losses.size(), 2u);
  for (const double loss : losses) EXPECT_TRUE(std::isfinite(loss)) << loss;
  EXPECT_NE(got.weights_sha256, plain_hash(j, 0)) << "the weights have not moved";
}

INSTANTIATE_TEST_SUITE_P(configs, nets,
                         ::testing::Values(net{"nin", 7'595'176}, net{"googlenet", 13'378'280}, net{"alexnet", 60'965'224},
                                           net{"vgg16", 138'357'544}, net{"resnet20", 269'722, 1'376},
                                           net{"resnet50", 25'557'032, 53'120}),
                         [](const auto& i) { return std::string(i.param.name); });

}  // namespace
}  // namespace troupe
