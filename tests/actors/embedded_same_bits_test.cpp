// Tests of determinism (docs/determinism.md): the weights after k steps have the same bits for any
// number of workers, shards, sub-solvers and stages, and in a plain loop without actors.
#include <filesystem>
#include <ostream>

#include "tests/actors/embedded_support.hpp"

namespace troupe {
namespace {

using namespace testing_embedded;

struct company {
  int workers = 1, shards = 1, sub_solvers = 1;
  const char* fuse = "none";
  overrides set() const {
    return {"topology.workers_per_group=" + std::to_string(workers), "topology.servers_per_group=" + std::to_string(shards),
            "pipeline.sub_solvers=" + std::to_string(sub_solvers), std::string("pipeline.fuse=") + fuse};
  }
  friend std::ostream& operator<<(std::ostream& o, const company& c) {
    return o << c.workers << "_workers_" << c.shards << "_shards_" << c.sub_solvers << "_solvers_" << c.fuse;
  }
};

class any_company : public testing::TestWithParam<company> {};

TEST_P(any_company, has_the_bits_of_the_plain_loop) {
  static const std::string expected = plain_hash(job_of(lenet_like()), 20);
  const auto r = embedded(job_of(lenet_like(), GetParam().set()));
  ASSERT_TRUE(r.ok) << r.where << ": " << r.error;
  EXPECT_EQ(r.step, 20u);
  EXPECT_EQ(r.weights_sha256, expected);
}

std::vector<company> companies() {
  std::vector<company> list;
  for (int workers : {1, 2, 3, 4})
    for (int shards : {1, 2, 3})
      for (int solvers : {1, 2})
        for (const char* fuse : {"none", "auto"}) list.push_back({workers, shards, solvers, fuse});
  return list;
}
INSTANTIATE_TEST_SUITE_P(all, any_company, testing::ValuesIn(companies()), [](const auto& i) {
  std::ostringstream s;
  s << i.param;
  return s.str();
});

TEST(embedded_same_bits, l1_decay_has_the_bits_of_the_plain_loop) {
  const overrides set{"train.dynamics.decay_l1=0.001", "layer.ip2.decay_scale=0"};
  const auto expected = plain_hash(job_of(lenet_like(), set), 20);
  EXPECT_NE(expected, plain_hash(job_of(lenet_like(), {set[1]}), 20));
  EXPECT_NE(expected, plain_hash(job_of(lenet_like(), {set[0]}), 20)) << "decay_scale is a factor of it";
  auto several = company{3, 2, 2, "auto"}.set();
  several.insert(several.end(), set.begin(), set.end());
  EXPECT_EQ(embedded(job_of(lenet_like(), several)).weights_sha256, expected);
}

// Blocks of 64 elements, so that nearly every parameter is cut, with one shard and with two, also
// where the coordinator collects weights.
TEST(embedded_same_bits, small_blocks_give_the_bits_of_the_plain_loop) {
  for (const char* rule : {"momentum", "adam", "adamw"}) {
    const overrides base{std::string("train.dynamics={rule=\"") + rule + "\",lr=0.01}"};
    const auto expected = plain_hash(job_of(lenet_like(), base), 20);
    for (const auto& c : {company{1, 1, 1, "none"}, company{3, 2, 2, "auto"}}) {
      auto set = c.set();
      set.insert(set.end(), base.begin(), base.end());
      set.emplace_back("topology.max_block=256");
      const auto j = job_of(lenet_like(), set);
      ASSERT_GT(j->plan.blocks.size(), 20u);
      EXPECT_EQ(embedded(j).weights_sha256, expected) << rule << " " << c;
    }
  }
}

// A run in small blocks that is switched, moved, stopped and resumed, against an undisturbed run in
// large blocks.
TEST(embedded_same_bits, small_blocks_give_the_same_bits_through_switch_move_and_resume) {
  const overrides base{"train.dynamics={rule=\"adam\",lr=0.01}", "train.finish.steps=400", "topology.workers_per_group=2"};
  const auto unbroken = embedded(job_of(lenet_like(), base)).weights_sha256;
  auto set = base;
  set.emplace_back("topology.max_block=256");
  store_effect kept;
  embedded_options o;
  embedded_run* self = nullptr;
  o.threads = 2;
  std::size_t switched = 0, moved = 0;
  o.on_event = [&](const event_effect& e) {
    if (e.is<step_event>() && e.step == 3) self->command({mode_command{{"ssp", {{"staleness", "0"}}}}});
    if (e.is<mode_event>() && ++switched == 1) self->command({mode_command{{"bsp"}}});
    if (e.is<mode_event>() && switched == 2) self->command({move_command{"ip1", "local"}});
    if (e.is<moved_event>() && ++moved == 1) self->stop();
  };
  o.on_store = [&](const store_effect& s) {
    if (s.what == store_effect::kind_of::checkpoint) kept = s;
  };
  embedded_run first(job_of(lenet_like(), set), std::move(o));
  self = &first;
  const auto broken = first.run();
  ASSERT_TRUE(broken.ok && broken.stopped) << broken.error;
  ASSERT_EQ(switched, 2u);
  ASSERT_EQ(moved, 1u);
  ASSERT_LT(broken.step, 400u);
  const auto j = job_of(lenet_like(), set);
  begin_at(*j, kept.step, kept.named);
  EXPECT_EQ(embedded(j).weights_sha256, unbroken) << "stopped at step " << kept.step;
}

// Packet counts that are no power of two have a tree with a missing branch.
TEST(embedded_same_bits, packet_counts_that_are_no_power_of_two_give_the_same_bits) {
  for (const char* packets : {"pipeline.packets=3", "pipeline.packets=6"}) {
    const auto expected = plain_hash(job_of(lenet_like(), {packets}), 20);
    for (const auto& c : {company{2, 1, 1, "none"}, company{3, 2, 2, "auto"}}) {
      auto set = c.set();
      set.emplace_back(packets);
      EXPECT_EQ(embedded(job_of(lenet_like(), set)).weights_sha256, expected) << packets << " " << c;
    }
  }
}

TEST(embedded_same_bits, every_step_has_the_loss_of_the_plain_loop) {
  std::vector<double> losses;
  embedded_options o;
  o.on_event = [&](const event_effect& e) {
    if (e.is<step_event>()) losses.push_back(flatten(e).values.at(0).second);
  };
  ASSERT_TRUE(embedded(job_of(lenet_like(), {"topology.workers_per_group=2"}), std::move(o)).ok);
  plain_loop loop(job_of(lenet_like()), make_cpu_device());
  ASSERT_EQ(losses.size(), 20u);
  for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_EQ(losses[i], loop.step()) << "step " << i;
  EXPECT_LT(losses.back(), losses.front());
}

TEST(embedded_same_bits, double_precision_gives_the_bits_of_the_plain_loop) {
  const auto expected = plain_hash(job_of(lenet_like(), {"job.precision=f64"}), 20);
  EXPECT_EQ(embedded(job_of(lenet_like(), {"job.precision=f64", "topology.workers_per_group=2"})).weights_sha256, expected);
}

// Activations in bf16: the bits of the plain loop in every layout. The losses follow those of fp32
// for a few steps, until roundings make a difference at this job's rate; later the job learns
// equally well.
TEST(embedded_same_bits, bf16_gives_the_bits_of_the_plain_loop_and_learns_as_fp32) {
  const auto job = [](overrides set) {
    set.emplace_back("job.precision=bf16");
    return job_of(lenet_like(), set);
  };
  const auto expected = plain_hash(job({}), 20);
  EXPECT_NE(expected, plain_hash(job_of(lenet_like()), 20));
  for (const auto& c : {company{1, 1, 1, "none"}, company{1, 1, 2, "auto"}, company{2, 2, 1, "auto"}, company{3, 1, 2, "none"}})
    EXPECT_EQ(embedded(job(c.set())).weights_sha256, expected) << c;
  plain_loop narrow(job({}), make_cpu_device()), wide(job_of(lenet_like()), make_cpu_device());
  double learnt = 0, learnt_narrow = 0;
  for (int i = 0; i < 40; ++i) {
    const double want = wide.step(), got = narrow.step();
    if (i < 5) {
      EXPECT_NEAR(got, want, 0.02 * want) << "step " << i;
    }
    if (i >= 20) learnt += want, learnt_narrow += got;
  }
  EXPECT_NEAR(learnt_narrow, learnt, 0.25 * learnt);
  for (const auto& [name, w] : narrow.weights()) EXPECT_EQ(w.type(), dtype::f32) << name;
}

// On real data, if it is installed.
TEST(embedded_same_bits, lenet_on_fashion_mnist_has_the_bits_of_the_plain_loop) {
  const std::string file = std::string(TROUPE_SOURCE_DIR) + "/configs/jobs/lenet_fashion.toml";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is not written yet";
  const overrides base{"train.finish.epochs=100", "train.finish.steps=200", "eval.every=0"};
  const auto job = [&](overrides more) {
    more.insert(more.end(), base.begin(), base.end());
    return take(read_job_file(file, stock_tables(), more));
  };
  const auto expected = plain_hash(job({}), 200);
  const auto r = embedded(job({"topology.workers_per_group=2", "topology.servers_per_group=2", "pipeline.sub_solvers=2"}));
  ASSERT_TRUE(r.ok) << r.error;
  EXPECT_EQ(r.weights_sha256, expected);
}

}  // namespace
}  // namespace troupe
