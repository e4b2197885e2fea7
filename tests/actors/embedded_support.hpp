// Helpers for tests of embedded runs: jobs as text, and prepared jobs.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/embedded.hpp"
#include "ops/device.hpp"
#include "runtime/base/result.hpp"
#include "runtime/job/job.hpp"
#include "runtime/job/record.hpp"
#include "runtime/node/config/job_file.hpp"
#include "runtime/plain/plain_loop.hpp"
#include "runtime/record/sha256.hpp"
#include "runtime/sim/world.hpp"
#include "tests/valid_events.hpp"

namespace troupe::testing_embedded {

// A small LeNet with an additional branch and join; 20 steps take well under a second.
inline constexpr const char* lenet_like_text = R"(
[job]
name = "small"
seed = 7
[data]
source = "synthetic"
shape = [1, 12, 12]
classes = 5
examples = 600
test_examples = 90
batch = 24
[[layer]]
name = "conv1"
type = "convolution"
inputs = ["data"]
outputs = 6
kernel = 3
[[layer]]
name = "pool1"
type = "max_pool"
inputs = ["conv1"]
kernel = 2
stride = 2
[[layer]]
name = "left"
type = "convolution"
inputs = ["pool1"]
outputs = 6
kernel = 3
pad = 1
[[layer]]
name = "right"
type = "relu"
inputs = ["pool1"]
[[layer]]
name = "join"
type = "eltwise"
inputs = ["left", "right"]
[[layer]]
name = "ip1"
type = "linear"
inputs = ["join"]
outputs = 20
[[layer]]
name = "relu1"
type = "relu"
inputs = ["ip1"]
[[layer]]
name = "drop1"
type = "dropout"
inputs = ["relu1"]
ratio = 0.25
[[layer]]
name = "ip2"
type = "linear"
inputs = ["drop1"]
outputs = 5
[[layer]]
name = "loss"
type = "softmax_loss"
inputs = ["ip2", "label"]
[[layer]]
name = "accuracy"
type = "accuracy"
inputs = ["ip2", "label"]
phase = "test"
[train]
dynamics = { rule = "momentum", lr = 0.05, momentum = 0.9, decay = 5e-4, schedule = { kind = "step", every = 8, factor = 0.5 } }
finish = { steps = 20 }
[pipeline]
packets = 4
)";
inline const char* lenet_like() { return lenet_like_text; }

using overrides = std::vector<std::string>;

// `offered`: the devices of the single node; a parameter, because a cluster file cannot name the
// devices of tests.
inline std::shared_ptr<prepared_job> take(expected<job_spec, diagnostics> spec,
                                          const std::vector<std::string>& offered = {"cpu:0"}) {
  if (!spec) {
    for (const auto& d : spec.error()) ADD_FAILURE() << d.to_string();
    return nullptr;
  }
  auto all = std::make_shared<const tables>(stock_tables());
  node_spec here;
  here.name = "local";
  here.devices = offered;
  auto j = prepare_job(std::move(*spec), all, {here});
  if (!j) {
    for (const auto& d : j.error()) ADD_FAILURE() << d.to_string();
    return nullptr;
  }
  return *j;
}

inline std::shared_ptr<prepared_job> job_of(const std::string& text, const overrides& set = {},
                                            const std::vector<std::string>& offered = {"cpu:0"}) {
  return take(parse_job(text, "job.toml", stock_tables(), set), offered);
}

// Runs the job in the simulator, each role on the node that this member of its plan gives. Returns
// the hash of the final weights.
inline std::string simulated_hash(const std::shared_ptr<prepared_job>& j, const sim::world_config& c,
                                  std::uint32_t role_plan::*node) {
  sim::world w(c);
  for (const auto& r : j->plan.roles) w.add(r.id, r.*node, make_role(j, r.id));
  std::string hash;
  w.on_store = [&](const store_effect& s) {
    if (s.what == store_effect::kind_of::weights) hash = weights_sha256(s.named);
  };
  envelope go;
  go.h.dst = role_id{0};
  go.body = start{};
  w.inject(go);
  EXPECT_TRUE(w.run(5'000'000, [&] { return !hash.empty(); }));
  return hash;
}

inline std::string plain_hash(const std::shared_ptr<prepared_job>& j, std::uint64_t steps) {
  plain_loop loop(j, make_cpu_device());
  while (loop.steps() < steps) loop.step();
  return weights_sha256(loop.weights());
}

inline embedded_result embedded(const std::shared_ptr<prepared_job>& j, embedded_options o = {}) {
  if (o.threads == 0) o.threads = 2;
  o.on_event = [next = std::move(o.on_event)](const event_effect& e) {
    valid_events::expect_valid(e);
    if (next) next(e);
  };
  embedded_run run(j, std::move(o));
  return run.run();
}

}  // namespace troupe::testing_embedded
