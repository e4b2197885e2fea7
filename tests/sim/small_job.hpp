// A small convolutional net on synthetic data as a prepared job, and a run of it in sim::world.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/device.hpp"
#include "runtime/job/job.hpp"
#include "runtime/job/record.hpp"
#include "runtime/sim/world.hpp"
#include "tests/environment.hpp"
#include "tests/valid_events.hpp"

namespace troupe::testing {

// The number of seeds of an invariant test: TROUPE_SEEDS, or `in_ci`.
inline std::uint64_t seeds(std::uint64_t in_ci = 200) { return from_environment("TROUPE_SEEDS", in_ci); }

struct shape_of_job {
  std::uint32_t packets = 4, workers = 1, shards = 1, sub_solvers = 1;
  std::string fuse = "none";
  bool fuse_layers = false;  // tests of fusing set it; other tests have one stage per layer
  std::uint64_t steps = 5;
  std::int64_t eval_every = 0;
  std::string rule = "momentum";
  std::int64_t readers = 0;
};

inline std::shared_ptr<const tables> shared_tables() {
  static const auto all = std::make_shared<const tables>(stock_tables());
  return all;
}

// Nodes n1, n2, ... that accept any role.
inline std::vector<node_spec> nodes_named(std::uint32_t count) {
  std::vector<node_spec> list(count);
  for (std::uint32_t i = 0; i < count; ++i) list[i].name = "n" + std::to_string(i + 1);
  return list;
}

// A device shared by tests.
inline std::shared_ptr<device> cpu() {
  static const std::shared_ptr<device> d = make_cpu_device();
  return d;
}

// Returns why one node cannot run the job, with the position in the file; empty if it can.
inline std::string refusal(const job_spec& j) {
  const auto made = prepare_job(j, shared_tables(), nodes_named(1));
  return made ? "" : made.error().front().to_string();
}

inline options checked(options given, const option_specs& specs) { return check_options(given, specs); }

inline layer_spec layer_of(const std::string& name, const std::string& type, std::vector<std::string> inputs, options given = {}) {
  layer_spec l;
  l.name = name;
  l.type = type;
  l.inputs = std::move(inputs);
  l.values = checked(std::move(given), shared_tables()->layers.find(type)->specs);
  return l;
}

inline options with(std::vector<std::pair<std::string, option_value>> values) {
  options o;
  for (auto& [k, v] : values) o.values.emplace(std::move(k), std::move(v));
  return o;
}

// A net with a join, so that the order of arrival at a stage with two inputs matters.
inline job_spec small_spec(const shape_of_job& s) {
  const auto& t = *shared_tables();
  auto n = [](std::int64_t v) { return option_value(v); };
  job_spec j;
  j.file = "small";
  j.name = "small";
  j.seed = 3;
  j.data.source = "synthetic";
  j.data.values = checked(
      with({{"shape", std::vector<std::int64_t>{1, 8, 8}}, {"classes", n(4)}, {"examples", n(64)}, {"test_examples", n(13)}}),
      t.sources.find("synthetic")->specs);
  j.data.batch = 2 * s.packets;
  j.data.readers = s.readers;
  j.data.sampler = {"shuffle", checked({}, t.samplers.find("shuffle")->specs), {}};
  j.layers = {layer_of("conv1", "convolution", {"data"}, with({{"outputs", n(3)}, {"kernel", n(3)}})),
              layer_of("relu1", "relu", {"conv1"}),
              layer_of("pool1", "max_pool", {"relu1"}, with({{"kernel", n(2)}, {"stride", n(2)}})),
              layer_of("left", "linear", {"pool1"}, with({{"outputs", n(6)}})),
              layer_of("right", "linear", {"pool1"}, with({{"outputs", n(6)}})),
              layer_of("sum", "eltwise", {"left", "right"}),
              layer_of("drop", "dropout", {"sum"}),
              layer_of("score", "linear", {"drop"}, with({{"outputs", n(4)}})),
              layer_of("loss", "softmax_loss", {"score", "label"}),
              layer_of("accuracy", "accuracy", {"score", "label"})};
  j.layers.back().phase = "test";
  j.train.rule = {s.rule, checked({}, t.rules.find(s.rule)->specs), {}};
  j.train.lr = 0.05;
  j.train.decay = 1e-3;
  j.train.schedule = {"fixed", checked({}, t.schedules.find("fixed")->specs), {}};
  j.train.finish.steps = static_cast<std::int64_t>(s.steps);
  j.eval.every = s.eval_every;
  j.pipeline.packets = s.packets;
  j.pipeline.sub_solvers = s.sub_solvers;
  j.pipeline.fuse = s.fuse;
  j.pipeline.fuse_layers = s.fuse_layers;
  j.topology.workers_per_group = s.workers;
  j.topology.servers_per_group = s.shards;
  return j;
}

inline std::shared_ptr<prepared_job> prepare(const shape_of_job& s, std::uint32_t nodes = 1) {
  std::vector<node_spec> list;
  for (std::uint32_t i = 0; i < nodes; ++i) {
    node_spec n;
    n.name = "n" + std::to_string(i + 1);
    list.push_back(n);
  }
  auto made = prepare_job(small_spec(s), shared_tables(), list);
  if (!made) {
    for (const auto& d : made.error()) ADD_FAILURE() << d.to_string();
    return nullptr;
  }
  return *made;
}

// Returns the stage of worker 0 that hosts a layer.
inline role_id stage_of(const prepared_job& j, std::uint32_t layer) {
  for (auto s : j.plan.stages[0])
    if (std::count(j.plan[s].layers.begin(), j.plan[s].layers.end(), layer) > 0) return s;
  return no_role;
}

struct run_result {
  std::vector<std::pair<std::string, tensor>> weights;
  std::vector<event_effect> events;
  std::uint64_t trace = 0, events_handled = 0;
  bool done = false;
  std::string error() const {  // empty: no error
    const auto e = std::find_if(events.begin(), events.end(), [](const event_effect& x) { return x.is<error_event>(); });
    return e == events.end() ? "" : message_of(*e);
  }
  std::string bytes() const {
    std::string all;
    for (const auto& [name, t] : weights) all.append(static_cast<const char*>(t.raw()), t.bytes());
    return all;
  }
};

inline run_result run_in_world(const std::shared_ptr<prepared_job>& j, sim::world_config c,
                               std::function<int(const envelope&, sim::random&)> copies = {}) {
  sim::world w(c);
  w.copies = std::move(copies);
  for (const auto& r : j->plan.roles) w.add(r.id, r.node, make_role(j, r.id), r.device);
  run_result out;
  w.on_event = [&](const event_effect& e) {
    valid_events::expect_valid(e);
    out.events.push_back(e);
    out.done = out.done || e.is<done_event>() || e.is<error_event>();
  };
  w.on_store = [&](const store_effect& s) {
    if (s.what == store_effect::kind_of::weights) out.weights = s.named;
  };
  envelope go;
  go.h.dst = role_id{0};
  go.body = start{};
  w.inject(go);
  EXPECT_TRUE(w.run(2'000'000, [&] { return out.done; })) << "the job did not end after two million events, seed " << c.seed;
  EXPECT_TRUE(out.done) << "no events are left, seed " << c.seed;
  out.trace = w.trace_hash();
  out.events_handled = w.events();
  return out;
}

}  // namespace troupe::testing
