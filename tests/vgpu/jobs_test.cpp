// Whole jobs on the CUDA backend with the virtual GPU: they train like the same jobs on the CPU, in
// every mode and with every rule, also over several GPUs, and over a CPU and a GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "ops/cuda/bf16_stream.hpp"
#include "ops/device_descriptors.hpp"
#include "tests/actors/embedded_support.hpp"
#include "tests/cluster/modes.hpp"
#include "tests/vgpu/vgpu.hpp"

namespace troupe::vgpu {
namespace {

using namespace testing_embedded;

struct curve {
  embedded_result result;
  std::vector<double> losses;  // of the steps
  double first() const { return losses.empty() ? NAN : losses.front(); }
  // Mean of the last five steps.
  double last() const {
    double sum = 0;
    for (std::size_t i = losses.size() - std::min<std::size_t>(5, losses.size()); i < losses.size(); ++i) sum += losses[i];
    return sum / 5;
  }
};

curve run(const std::shared_ptr<prepared_job>& j, const device_list& devices) {
  curve c;
  embedded_options o;
  o.devices = devices;
  o.on_event = [&](const event_effect& e) {
    if (e.kind != "step") return;
    for (const auto& [name, value] : e.values)
      if (name == "loss") c.losses.push_back(value);
  };
  c.result = embedded(j, std::move(o));
  EXPECT_TRUE(c.result.ok) << c.result.where << ": " << c.result.error;
  return c;
}

// Runs a job on virtual devices. `offered`: names of devices, "gpu:0" and "cpu:0".
curve run_on(const std::vector<std::string>& offered, const std::string& text, const overrides& set, std::uint64_t seed = 1) {
  options o;
  o.devices = 2;
  o.seed = seed;
  reset(o);
  curve c;
  {
    std::map<int, std::shared_ptr<cuda::gpu>> gpus;
    device_list devices;
    for (const auto& name : offered) {
      const auto word = parse_device(name);
      if (word.kind == "cpu") {
        devices.push_back(make_cpu_device());
        continue;
      }
      auto& g = gpus[word.number];
      if (!g) g = std::make_shared<cuda::gpu>(word.number);
      devices.push_back(cuda::make_stream_of(g));
    }
    std::map<int, long> held;
    for (const auto& [number, g] : gpus) held[number] = g.use_count();
    c = run(job_of(text, set, offered), devices);
    for (const auto& [number, g] : gpus) EXPECT_EQ(g.use_count(), held[number]) << "the job has left a stream";
    EXPECT_GT(counted().kernels, 0u);
    for (auto& [name, weight] : c.result.weights) EXPECT_TRUE(weight.space().host()) << name;
  }
  for (const auto& f : findings()) ADD_FAILURE() << f;
  EXPECT_EQ(counted().streams, 0u);
  return c;
}
curve run_on_cpu(const std::string& text, const overrides& set) { return run(job_of(text, set), {make_cpu_device()}); }

void expect_same_curve(const curve& got, const curve& want, double bound) {
  ASSERT_EQ(got.losses.size(), want.losses.size());
  for (std::size_t i = 0; i < want.losses.size(); ++i) EXPECT_NEAR(got.losses[i], want.losses[i], bound) << "step " << i + 1;
}

TEST(gpu_jobs, have_the_loss_curve_of_the_cpu) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const auto want = run_on_cpu(lenet_like(), {});
    const auto got = run_on({"gpu:0"}, lenet_like(), {}, seed);
    expect_same_curve(got, want, 1e-4);
    EXPECT_EQ(got.losses.size(), 20u);
  }
}

TEST(gpu_jobs, end_with_the_same_weights_for_any_order_of_operations_and_shape_of_the_run) {
  const auto want = run_on({"gpu:0"}, lenet_like(), {}, 1).result.weights_sha256;
  EXPECT_EQ(run_on({"gpu:0"}, lenet_like(), {}, 2).result.weights_sha256, want);
  const std::vector<overrides> shapes{
      {"topology.workers_per_group=2"}, {"pipeline.sub_solvers=3"}, {"topology.workers_per_group=4", "pipeline.sub_solvers=2"}};
  for (const auto& set : shapes) EXPECT_EQ(run_on({"gpu:0"}, lenet_like(), set).result.weights_sha256, want) << set[0];
  EXPECT_EQ(run_on({"gpu:0", "gpu:1"}, lenet_like(), shapes[0]).result.weights_sha256, want);
}

TEST(gpu_jobs, split_one_batch_over_a_cpu_and_a_gpu) {
  const overrides two{"topology.workers_per_group=2"};
  expect_same_curve(run_on({"gpu:0", "cpu:0"}, lenet_like(), two), run_on_cpu(lenet_like(), two), 1e-4);
}

TEST(gpu_jobs, follow_the_cpu_with_every_rule) {
  for (const char* rule : {"sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adadelta", "adam", "adamax"}) {
    SCOPED_TRACE(rule);
    const overrides set{"train.dynamics={rule=\"" + std::string(rule) + "\",lr=0.01}", "train.finish.steps=8"};
    expect_same_curve(run_on({"gpu:0"}, lenet_like(), set), run_on_cpu(lenet_like(), set), 1e-4);
  }
}

TEST(gpu_jobs, follow_the_cpu_in_f64_and_roughly_in_bf16) {
  const overrides f64{"job.precision=\"f64\"", "train.finish.steps=8"}, bf16{"job.precision=\"bf16\"", "train.finish.steps=8"};
  expect_same_curve(run_on({"gpu:0"}, lenet_like(), f64), run_on_cpu(lenet_like(), f64), 1e-10);
  expect_same_curve(run_on({"gpu:0"}, lenet_like(), bf16), run_on_cpu(lenet_like(), bf16), 2e-2);
}

// What a job of two steps on a few examples ends with if the device fails; "" if it ends well.
std::string failure_of(const options& o) {
  static const auto j =
      job_of(lenet_like(), {"train.finish.steps=2", "data.batch=4", "data.examples=12", "data.test_examples=4"}, {"gpu:0"});
  reset(o);
  std::string failure;
  {
    const auto g = std::make_shared<cuda::gpu>(0);
    embedded_options e;
    e.devices = {cuda::make_stream_of(g)};
    const auto r = embedded(j, std::move(e));
    failure = r.ok ? "" : r.error;
    EXPECT_FALSE(r.hung);
  }
  EXPECT_EQ(counted().streams, 0u);
  EXPECT_EQ(counted().events, 0u);
  EXPECT_TRUE(o.lose_device >= 0 || counted().bytes_in_use == 0);
  for (const auto& f : findings()) ADD_FAILURE() << f;
  return failure;
}

TEST(gpu_failures, end_the_job_with_what_was_asked_for_and_held_when_memory_ends) {
  std::size_t failed = 0;
  for (std::int64_t n = 0; n < 200; ++n) {
    options o;
    o.fail_allocation = n;
    const auto text = failure_of(o);
    failed += text.empty() ? 0 : 1;
    EXPECT_TRUE(text.empty() || text.find("gpu:0 (virtual GPU) is out of memory: ") != std::string::npos) << n << ": " << text;
  }
  EXPECT_GT(failed, 20u);
}

TEST(gpu_failures, end_the_job_with_the_name_of_the_device_when_it_is_lost) {
  for (std::int64_t n = 0; n < 200; ++n) {
    options o;
    o.lose_device = n;
    const auto text = failure_of(o);
    EXPECT_NE(text.find("gpu:0"), std::string::npos) << n << ": " << text;
  }
}

TEST(gpu_jobs, train_in_every_mode) {
  for (auto [mode, set] : testing_cluster::documented_modes()) {
    SCOPED_TRACE(mode);
    set.insert(set.end(), {"topology.workers_per_group=2", "train.finish.steps=30"});
    const auto got = run_on({"gpu:0", "gpu:1"}, lenet_like(), set);
    EXPECT_LT(got.last(), got.first());
  }
}

}  // namespace
}  // namespace troupe::vgpu
