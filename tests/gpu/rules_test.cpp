// The keys of [job] for GPUs, tf32 and conv_workspace: they reach every stream that computes a job,
// on actors, in a plain loop and in the simulator.
#include "tests/gpu/jobs.hpp"

namespace troupe::testing_gpu {
namespace {

using namespace testing_embedded;

const std::vector<std::string> gpu{"gpu:0"};

std::string of_plain_loop(const overrides& set) {
  const auto j = job_of(lenet_like(), set, gpu);
  const auto d = make_devices(gpu).front();
  plain_loop loop(j, d);
  while (loop.steps() < j->last_step) loop.step();
  auto weights = loop.weights();
  d->begin_task();
  for (auto& [name, w] : weights) w = brought_home(*d, w);
  d->finish_task();
  return weights_sha256(weights);
}

std::string of_simulator(const overrides& set) {
  const auto j = job_of(lenet_like(), set, gpu);
  const auto d = make_devices(gpu).front();
  sim::world_config c;
  c.dev = d.get();
  c.maths = j->spec.maths;
  return simulated_hash(j, c, &role_plan::node);
}

TEST(GPU_rules, tf32_changes_the_weights_and_hardly_the_curve) {
  const auto exact = run_on(gpu), rounded = run_on(gpu, {"job.tf32=true"});
  EXPECT_NE(rounded.result.weights_sha256, exact.result.weights_sha256);
  expect_same_curve(rounded, exact, 1e-2);
}

// Convolutions that are large enough for cuDNN to choose tensor cores, with workspace.
overrides wide_job(const overrides& more) {
  overrides set{"data.shape=[64,8,8]", "layer.conv1.outputs=32", "layer.left.outputs=32", "train.finish.steps=3", "job.tf32=true"};
  set.insert(set.end(), more.begin(), more.end());
  return set;
}

TEST(GPU_rules, conv_workspace_changes_the_engines_of_convolutions) {
  EXPECT_NE(weights_on(gpu, wide_job({"job.conv_workspace=0"})), weights_on(gpu, wide_job({})));
}

TEST(GPU_rules, reach_every_stream_of_a_job) {
  const auto set = [](const overrides& more) {
    auto all = wide_job({"job.conv_workspace=0"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const auto want = weights_on(gpu, set({}));
  EXPECT_EQ(weights_on(gpu, set({"pipeline.sub_solvers=3"})), want);
  EXPECT_EQ(weights_on(gpu, set({"topology.workers_per_group=4", "pipeline.sub_solvers=2"})), want);
  EXPECT_EQ(of_plain_loop(set({})), want);
  EXPECT_EQ(of_simulator(set({"pipeline.sub_solvers=2"})), want);
}

TEST(GPU_rules, do_not_change_a_job_on_the_cpu) {
  const std::vector<std::string> cpu{"cpu:0"};
  EXPECT_EQ(weights_on(cpu, {"job.tf32=true", "job.conv_workspace=\"1MiB\""}), weights_on(cpu));
}

}  // namespace
}  // namespace troupe::testing_gpu
