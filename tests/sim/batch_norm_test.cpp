// Running statistics (reduce/fold.hpp) and layers whose packets compute together
// (stage/joint_stage.hpp), with batch_norm: the bits do not depend on the placement of packets, the
// values are those of folding packet by packet, and every mode keeps or refuses them.
#include <algorithm>
#include <cmath>
#include <map>

#include "ops/tensor_values.hpp"
#include "runtime/coordinator/handover.hpp"
#include "runtime/job/record.hpp"
#include "runtime/plain/plain_loop.hpp"
#include "runtime/reduce/fold.hpp"
#include "tests/error_text.hpp"
#include "tests/sim/small_job.hpp"

namespace troupe::testing {
namespace {

// The small net with a batch_norm after its convolution and a non-affine one before its scores. No
// dropout, which would make the packets differ.
job_spec normal_spec(const shape_of_job& s, const std::string& stats, double momentum = 0.1) {
  auto j = small_spec(s);
  j.precision = "f64";
  std::erase_if(j.layers, [](const layer_spec& l) { return l.type == "dropout"; });
  auto bn = layer_of("bn1", "batch_norm", {"conv1"}, with({{"stats", stats}, {"momentum", momentum}}));
  j.layers.insert(j.layers.begin() + 1, bn);
  j.layers[2].inputs = {"bn1"};
  for (auto& l : j.layers)
    if (l.name == "score") l.inputs = {"bn2"};
  j.layers.push_back(layer_of("bn2", "batch_norm", {"sum"},
                              with({{"stats", stats}, {"momentum", momentum}, {"affine", false}, {"epsilon", 0.01}})));
  return j;
}

using preparation = expected<std::shared_ptr<prepared_job>, diagnostics>;
preparation prepare_on(job_spec j, std::uint32_t nodes) {
  std::vector<node_spec> list(nodes);
  for (std::uint32_t i = 0; i < nodes; ++i) list[i].name = "n" + std::to_string(i + 1);
  return prepare_job(std::move(j), shared_tables(), list);
}
std::string refusal_of_norm(job_spec j) {
  const auto made = prepare_on(std::move(j), 1);
  return made ? "none" : made.error().front().message;
}

struct batch_norm_world : ::testing::Test {
  std::shared_ptr<device> dev = make_cpu_device();

  run_result run(job_spec j, std::uint32_t nodes = 1, std::uint64_t seed = 5) {
    auto made = prepare_on(std::move(j), nodes);
    if (!made) {
      ADD_FAILURE() << made.error().front().to_string();
      return {};
    }
    sim::world_config c;
    c.seed = seed;
    c.dev = dev.get();
    return run_in_world(*made, c);
  }
  std::vector<std::pair<std::string, tensor>> plain(job_spec j) {
    auto made = prepare_on(std::move(j), 1);
    plain_loop loop(*made, dev);
    while (loop.steps() < 5) loop.step();
    return loop.weights();
  }
};

const double* values_of(const run_result& r, const std::string& name) {
  for (const auto& [n, t] : r.weights)
    if (n == name) return t.data<double>();
  ADD_FAILURE() << "no " << name;
  return nullptr;
}

TEST(fold, weights_and_remainder_equal_folding_packets_one_by_one) {
  for (const double momentum : {0.0, 0.1, 0.75, 1.0})
    for (std::uint32_t packets = 1; packets < 9; ++packets) {
      param_spec p;
      p.momentum = momentum;
      double running = 3, sum = 0;
      for (std::uint32_t k = 0; k < packets; ++k) {
        const double packet = std::sin(k + 1.0);
        running = (1 - momentum) * running + momentum * packet;
        sum += fold_weight(p, k, packets) * packet;
      }
      EXPECT_NEAR(fold_keep(p, packets) * 3 + sum, running, 1e-14) << momentum << " " << packets;
      p.once_a_step = true;
      EXPECT_EQ(fold_keep(p, packets), 1 - momentum);
      EXPECT_EQ(fold_weight(p, 0, packets), momentum);
    }
}

TEST_F(batch_norm_world, weights_and_statistics_do_not_depend_on_the_number_of_workers) {
  const shape_of_job one{.packets = 6};
  const auto want = plain(normal_spec(one, "packet"));
  run_result plain_result;
  plain_result.weights = want;
  for (const double start : {0.0, 1.0}) {
    const auto* running = values_of(plain_result, start == 0.0 ? "bn1.running_mean" : "bn1.running_var");
    for (int c = 0; c < 3; ++c) EXPECT_NE(running[c], start) << "the statistics have changed";
  }
  for (std::uint32_t workers = 1; workers <= 4; ++workers)
    for (const char* reducer : {"server", "tree"})
      for (const char* fuse : {"auto", "none"}) {
        shape_of_job s = one;
        s.workers = workers, s.shards = 1 + workers % 3, s.sub_solvers = 1 + workers % 2, s.fuse = fuse;
        auto j = normal_spec(s, "packet");
        j.train.reducer = reducer;
        const auto got = run(j, workers);
        ASSERT_EQ(got.bytes(), plain_result.bytes()) << workers << " " << reducer << " " << fuse;
      }
}

// With a limit that no gradient reaches, clipping changes no bit of the statistics.
TEST_F(batch_norm_world, clipping_by_norm_ignores_running_statistics) {
  auto j = normal_spec({.packets = 4, .workers = 2, .shards = 2}, "packet");
  const auto want = run(j, 2);
  j.train.clip.norm = 1e9;
  EXPECT_EQ(run(j, 2).bytes(), want.bytes());
}

TEST_F(batch_norm_world, batch_statistics_equal_those_of_one_packet_with_all_examples) {
  shape_of_job one{.packets = 1};
  auto whole = normal_spec(one, "packet", 0.3);
  whole.data.batch = 12;
  run_result want;
  want.weights = plain(whole);
  std::string first;
  for (const auto& [workers, sub_solvers] : std::map<std::uint32_t, std::uint32_t>{{1, 6}, {2, 3}, {3, 2}, {6, 1}}) {
    shape_of_job s{.packets = 6, .workers = workers, .shards = 2, .sub_solvers = sub_solvers, .fuse = "auto"};
    auto j = normal_spec(s, "batch", 0.3);
    j.data.batch = 12;
    j.eval.every = 2;
    const auto got = run(j, workers, workers);
    ASSERT_EQ(got.weights.size(), want.weights.size());
    for (std::size_t i = 0; i < want.weights.size(); ++i)
      for (std::int64_t k = 0; k < want.weights[i].second.count(); ++k) {
        const double a = want.weights[i].second.data<double>()[k], b = got.weights[i].second.data<double>()[k];
        ASSERT_NEAR(a, b, 1e-10 * std::max(1.0, std::fabs(a))) << want.weights[i].first << " with " << workers << " workers";
      }
    if (first.empty()) first = got.bytes();
    EXPECT_EQ(got.bytes(), first) << "the bits depend on the placement of packets: " << workers << " workers";
  }
}

TEST_F(batch_norm_world, duplicate_measurements_change_no_bit) {
  shape_of_job s{.packets = 4, .workers = 2, .sub_solvers = 2};
  const auto j = prepare_on(normal_spec(s, "batch"), 2).value();
  sim::world_config c;
  c.seed = 3;
  c.dev = dev.get();
  const auto want = run_in_world(j, c);
  const auto got = run_in_world(j, c, [](const envelope& e, sim::random&) { return std::holds_alternative<user>(e.body) ? 2 : 1; });
  EXPECT_EQ(got.bytes(), want.bytes());
}

TEST_F(batch_norm_world, batch_statistics_need_all_packets_in_flight_and_lockstep) {
  EXPECT_EQ(refusal_of_norm(normal_spec({.packets = 4, .workers = 2, .sub_solvers = 1}, "batch")),
            "layer 'bn1': its packets compute together, so all of a step must be in flight: a worker has 2 packets, but "
            "pipeline.sub_solvers = 1");
  auto stale = normal_spec({.packets = 2, .workers = 2, .sub_solvers = 1}, "batch");
  stale.train.sync = {"ssp", checked({}, shared_tables()->modes.find("ssp")->specs), {}};
  EXPECT_NE(refusal_of_norm(stale).find("cannot compute layer 'bn1' together (mode bsp can)"), std::string::npos)
      << refusal_of_norm(stale);
}

// Its variance is 0: the outputs would be constant, and the running variance approaches 0.
TEST_F(batch_norm_world, a_packet_with_one_value_a_channel_is_refused_in_training) {
  auto one = normal_spec({.packets = 4, .sub_solvers = 4}, "packet");
  one.data.batch = 4;
  EXPECT_EQ(
      refusal_of_norm(one),
      "layer 'bn2': a packet 1x6 has one value for each channel, of which the variance is 0: use fewer packets, a larger batch "
      "or stats = \"batch\"");
  one.trains = false;
  EXPECT_EQ(refusal_of_norm(one), "none") << "predictions use the running values";
  auto joint = normal_spec({.packets = 4, .sub_solvers = 4}, "batch");
  joint.data.batch = 4;
  EXPECT_EQ(refusal_of_norm(joint), "none");
  auto alone = normal_spec({.packets = 1}, "batch");
  alone.data.batch = 1;
  EXPECT_NE(refusal_of_norm(alone).find("the batch has one value for each channel"), std::string::npos) << refusal_of_norm(alone);
}

TEST_F(batch_norm_world, group_norms_of_one_value_are_refused_in_training) {
  auto j = small_spec({.packets = 2});
  j.layers.insert(j.layers.begin() + 7, layer_of("norm", "group_norm", {"drop"}, with({{"groups", std::int64_t{6}}})));
  j.layers[8].inputs = {"norm"};
  EXPECT_EQ(refusal_of_norm(j),
            "layer 'norm': a group of its input 2x6 has one value, of which the variance is 0: use fewer groups");
  j.layers[7] = layer_of("norm", "group_norm", {"drop"}, with({{"groups", std::int64_t{3}}}));
  EXPECT_EQ(refusal_of_norm(j), "none");
}

job_spec in_mode(const shape_of_job& s, const std::string& mode, options o) {
  auto j = normal_spec(s, "packet");
  const char* rule = mode == "eamsgd" ? "nesterov" : "sgd";
  j.train.rule = {rule, checked({}, shared_tables()->rules.find(rule)->specs), {}};
  j.train.decay = 0;  // ssp adds only gradients to its weights, no decay
  const auto* m = shared_tables()->modes.find(mode);
  j.train.sync = {mode, checked(std::move(o), m->specs), {}};
  if (m->by_groups) {
    j.topology.worker_groups = s.workers;
    j.topology.workers_per_group = 1;
  }
  return j;
}

// One worker of any mode is plain training. Several workers keep finite statistics with a positive
// variance.
TEST_F(batch_norm_world, every_mode_keeps_statistics_or_is_refused) {
  const auto want = plain(in_mode({.packets = 4}, "bsp", {}));
  run_result wanted;
  wanted.weights = want;
  for (const auto& mode : shared_tables()->modes.names()) {
    const auto got = run(in_mode({.packets = 4}, mode, {}));
    ASSERT_FALSE(got.weights.empty()) << mode;
    const bool elastic = mode == "easgd" || mode == "eamsgd";  // the final weights are the centre
    for (const auto& [name, t] : got.weights)
      for (std::int64_t k = 0; !elastic && k < t.count(); ++k)
        ASSERT_NEAR(t.data<double>()[k], values_of(wanted, name)[k], 1e-9) << mode << " " << name;
    auto j = in_mode({.packets = 4, .workers = 2}, mode, {});
    if (mode == "hogwild" || mode == "group_sync") {
      if (mode == "group_sync") j.topology.server_groups = 2;
      EXPECT_NE(refusal_of_norm(j).find("cannot keep the running statistics of layer 'bn1' ('running_mean'): "), std::string::npos)
          << refusal_of_norm(j);
      continue;
    }
    const auto several = run(j, 2);
    ASSERT_FALSE(several.weights.empty()) << mode;
    for (int c = 0; c < 3; ++c) {
      const double v = values_of(several, "bn1.running_var")[c];
      EXPECT_TRUE(std::isfinite(v) && v > 0) << mode << " " << v;
    }
  }
  EXPECT_NE(refusal_of_norm(in_mode({.packets = 4}, "downpour", with({{"n_push", std::int64_t{2}}}))).find("n_push must be 1"),
            std::string::npos);
}

TEST_F(batch_norm_world, plain_loop_refuses_packets_that_compute_together) {
  const auto reasons = [](const std::string& stats, std::uint32_t packets) {
    shape_of_job s;
    s.packets = s.sub_solvers = packets;
    const auto made = prepare_on(normal_spec(s, stats), 1);
    return plain_loop::why_not(**made);
  };
  EXPECT_TRUE(reasons("packet", 4).empty());
  EXPECT_TRUE(reasons("batch", 1).empty());
  const auto refused = reasons("batch", 4);
  ASSERT_EQ(refused.size(), 2u);
  EXPECT_NE(refused[0].message.find("the 4 packets of layer 'bn1' are computed together"), std::string::npos) << refused[0].message;
}

// Renames the statistics as in files from before they had PyTorch's names: weights, and checkpoints
// with rule states.
named_tensors under_earlier_names(const named_tensors& named) {
  named_tensors out;
  for (auto [name, t] : named) {
    for (const auto& [now, then] : {std::pair<std::string, std::string>{".running_mean", ".mean"}, {".running_var", ".variance"}})
      if (const auto at = name.find(now); at != std::string::npos) name.replace(at, now.size(), then);
    out.emplace_back(std::move(name), t);
  }
  return out;
}

TEST_F(batch_norm_world, accepts_weights_with_earlier_names) {
  const auto spec = normal_spec({.packets = 4}, "packet");
  const auto trained = plain(spec), old = under_earlier_names(trained);
  ASSERT_EQ(std::count_if(old.begin(), old.end(), [](const auto& n) { return n.first == "bn2.variance"; }), 1);
  for (const auto& named : {trained, old}) {
    const auto j = prepare_on(spec, 1).value();
    const auto begun = begin_from_weights(*j, {{}, named}, "w.safetensors");
    if (!begun) FAIL() << begun.error().to_string();
    const auto got = initial_weights(*j, *dev);
    ASSERT_EQ(got.size(), trained.size());
    for (std::size_t k = 0; k < got.size(); ++k) {
      EXPECT_EQ(got[k].first, trained[k].first);
      EXPECT_TRUE(same_bits(at_home(*dev, got[k].second), trained[k].second)) << got[k].first;
    }
  }
}

TEST_F(batch_norm_world, accepts_a_checkpoint_with_earlier_names_and_rule_states) {
  const auto spec = normal_spec({.packets = 4}, "packet");
  const auto j = prepare_on(spec, 1).value();
  const auto rule = j->all->rules.find(spec.train.rule.kind)->make(spec.train.rule.values);
  checkpoint c;
  c.step = c.sampler_position = 2;
  c.seed = spec.seed;
  c.packets = j->plan.packets;
  c.numerics = "here";
  const auto trained = plain(spec);
  named_tensors all = trained;
  for (const auto& [name, t] : trained)
    for (const auto& state : rule->states()) all.emplace_back(name + "@" + state, t);
  c.named = under_earlier_names(all);
  ASSERT_EQ(test::error_text(resume_from(*j, c, "c.safetensors", "here", {})), "");
  ASSERT_EQ(j->before->named.size(), all.size());
  for (std::size_t k = 0; k < all.size(); ++k) EXPECT_EQ(j->before->named[k].first, all[k].first);
}

}  // namespace
}  // namespace troupe::testing
