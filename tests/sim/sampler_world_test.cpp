// Whole jobs with every sampler in sim::world: the weights equal the reference in any order of
// delivery, with all loader messages between nodes duplicated; and the sampler of evaluations.
#include <cmath>

#include "tests/sim/small_job.hpp"

namespace troupe::testing {
namespace {

class sampler_world : public ::testing::Test {
 protected:
  sampler_world() : dev_(make_cpu_device()), rows_(std::make_shared<tables>(stock_tables())) {
    // The order of `replicate`, with every loader reading locally: the reference for its broadcast.
    auto row = *rows_->samplers.find("replicate");
    row.name = "replicate_read_locally";
    row.how = delivery::local;
    rows_->samplers.add(row);
  }

  std::shared_ptr<prepared_job> prepared(const shape_of_job& s, const std::string& kind, options given = {},
                                         std::uint32_t nodes = 3, const std::function<void(job_spec&)>& change = {}) {
    auto spec = small_spec(s);
    spec.data.sampler = {kind, check_options(given, rows_->samplers.find(kind)->specs), {}};
    if (change) change(spec);
    std::vector<node_spec> list(nodes);
    for (std::uint32_t i = 0; i < nodes; ++i) {
      list[i].name = "n" + std::to_string(i + 1);
      list[i].roles = {"coordinator", "worker", "server"};
    }
    list.back().roles.push_back("data");
    auto made = prepare_job(spec, rows_, list);
    if (!made) {
      ADD_FAILURE() << made.error().front().to_string();
      return nullptr;
    }
    return *made;
  }

  run_result run(const std::shared_ptr<prepared_job>& j, std::uint64_t seed, bool twice = false) {
    sim::world_config c;
    c.seed = seed;
    c.dev = dev_.get();
    if (!twice) return run_in_world(j, c);
    return run_in_world(j, c, [&](const envelope& e, sim::random& r) {
      const bool loading = std::holds_alternative<grant>(e.body) || std::holds_alternative<evaluate>(e.body) ||
                           std::holds_alternative<want_examples>(e.body) || std::holds_alternative<examples>(e.body) ||
                           std::holds_alternative<examples_seed>(e.body);
      if (!loading || r.below(2) == 0) return 1;
      ++doubled_;
      return 2;
    });
  }

  static std::vector<double> evaluations(const run_result& r) {
    std::vector<double> out;
    for (const auto& e : r.events)
      if (e.is<eval_event>())
        for (const auto& [name, value] : flatten(e).values) out.push_back(value);
    return out;
  }

  std::unique_ptr<device> dev_;
  std::shared_ptr<tables> rows_;
  std::uint64_t doubled_ = 0;
};

shape_of_job several_workers() {
  shape_of_job s;
  s.workers = 3;
  s.shards = 2;
  s.sub_solvers = 2;
  s.steps = 10;
  s.eval_every = 4;
  return s;
}

TEST_F(sampler_world, served_and_seeded_equal_shuffle_bit_for_bit) {
  const auto shape = several_workers();
  const auto want = run(prepared(shape, "shuffle"), 1);
  ASSERT_FALSE(want.bytes().empty());
  for (const char* kind : {"served", "seeded"})
    for (std::uint64_t seed = 1; seed <= seeds(200); ++seed) {
      const auto got = run(prepared(shape, kind), seed, true);
      ASSERT_EQ(got.bytes(), want.bytes()) << kind << " seed " << seed;
      ASSERT_EQ(evaluations(got), evaluations(want)) << kind << " seed " << seed;
    }
  EXPECT_GT(doubled_, 1000u);
}

TEST_F(sampler_world, served_equals_the_order_it_serves_bit_for_bit) {
  const auto shape = several_workers();
  for (const char* order : {"sequential", "shard", "own_order"}) {
    options o;
    o.values.emplace("order", std::string(order));
    const auto want = run(prepared(shape, order), 1).bytes();
    for (std::uint64_t seed = 1; seed <= 10; ++seed) EXPECT_EQ(run(prepared(shape, "served", o), seed).bytes(), want) << order;
  }
}

TEST_F(sampler_world, replicate_equals_reading_locally_bit_for_bit) {
  for (std::uint32_t workers : {2u, 3u, 4u}) {
    auto shape = several_workers();
    shape.workers = workers;
    const auto want = run(prepared(shape, "replicate_read_locally"), 1).bytes();
    for (std::uint64_t seed = 1; seed <= seeds(200) / 3; ++seed)
      ASSERT_EQ(run(prepared(shape, "replicate"), seed, true).bytes(), want) << workers << " workers, seed " << seed;
  }
  EXPECT_GT(doubled_, 1000u);
}

TEST_F(sampler_world, every_sampler_equals_shuffle_for_one_worker) {
  shape_of_job shape;
  const auto want = run(prepared(shape, "shuffle", {}, 1), 1).bytes();
  for (const char* kind : {"shard", "own_order", "replicate", "served", "seeded"})
    EXPECT_EQ(run(prepared(shape, kind, {}, 1), 2).bytes(), want) << kind;
}

TEST_F(sampler_world, samplers_that_differ_by_worker_give_different_weights) {
  const auto shape = several_workers();
  std::vector<std::string> seen{run(prepared(shape, "shuffle"), 1).bytes()};
  for (const char* kind : {"shard", "own_order", "replicate", "sequential"}) {
    seen.push_back(run(prepared(shape, kind), 1).bytes());
    for (std::size_t i = 0; i + 1 < seen.size(); ++i) EXPECT_NE(seen[i], seen.back()) << kind;
    EXPECT_EQ(run(prepared(shape, kind), 7).bytes(), seen.back()) << kind << ": the weights depend on the order of delivery";
  }
}

// Steps 6..10 from the weights of step 6 equal ten steps in one run.
TEST_F(sampler_world, resumed_run_equals_the_uninterrupted_one_for_every_sampler) {
  for (const char* kind : {"shuffle", "shard", "own_order", "replicate", "served", "seeded", "sequential"}) {
    auto shape = several_workers();
    shape.rule = "sgd";
    const auto want = run(prepared(shape, kind), 1).bytes();
    auto first = shape, rest = shape;
    first.steps = 6;
    const auto half = run(prepared(first, kind), 2);
    auto j = prepared(rest, kind);
    begin_at(*j, 6, half.weights);
    EXPECT_EQ(run(j, 3).bytes(), want) << kind;
  }
}

TEST_F(sampler_world, evaluation_has_its_own_batch_sample_and_split) {
  const auto shape = several_workers();
  const auto with = [&](const char* kind, std::int64_t examples, std::int64_t batch, bool train = false) {
    return prepared(shape, kind, {}, 3, [=, this](job_spec& s) {
      options o;
      if (examples > 0) o.values.emplace("examples", examples);
      const char* row = examples > 0 ? "sample" : "all";
      s.eval.sampler = {row, check_options(o, rows_->eval_samplers.find(row)->specs), {}};
      s.eval.batch = batch;
      s.eval.on_training = train;
    });
  };
  const auto weights = run(with("shuffle", 0, 0), 1);
  const auto accuracy = [&](const run_result& r) { return evaluations(r).at(0); };
  const auto all_train = run(with("shuffle", 0, 20, true), 1);
  EXPECT_NEAR(accuracy(all_train) * 64, std::round(accuracy(all_train) * 64), 1e-5) << "64 examples of the training split";
  const auto some = run(with("shuffle", 7, 12), 1);
  EXPECT_NEAR(accuracy(some) * 7, std::round(accuracy(some) * 7), 1e-5) << "a sample of 7";
  EXPECT_EQ(some.bytes(), weights.bytes()) << "evaluation does not change training";
  for (const char* kind : {"served", "seeded"})
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      ASSERT_EQ(evaluations(run(with(kind, 7, 12), seed, true)), evaluations(some)) << kind;
      ASSERT_EQ(evaluations(run(with(kind, 0, 20, true), seed, true)), evaluations(all_train)) << kind;
    }
}

// Any number of packets may be read in parallel, by loaders, by the data server and by the root of
// a broadcast.
TEST_F(sampler_world, parallel_readers_change_no_bit) {
  for (const char* kind : {"shuffle", "served", "seeded", "replicate"}) {
    auto shape = several_workers();
    shape.packets = 8;
    shape.readers = 1;
    const auto want = run(prepared(shape, kind), 1);
    ASSERT_FALSE(want.bytes().empty());
    for (std::int64_t readers : {2, 3, 7})
      for (std::uint64_t seed = 1; seed <= seeds(200) / 20; ++seed) {
        shape.readers = readers;
        const auto got = run(prepared(shape, kind), seed, true);
        ASSERT_EQ(got.bytes(), want.bytes()) << kind << ", " << readers << " readers, seed " << seed;
        ASSERT_EQ(evaluations(got), evaluations(want)) << kind << ", " << readers << " readers, seed " << seed;
      }
  }
}

// Augmented images: for any reading role and path the weights equal those of one worker.
TEST_F(sampler_world, augmented_examples_do_not_depend_on_the_reading_role) {
  const auto augmented = [](job_spec& s) {
    options o;
    o.values.emplace("crop", std::int64_t{7});
    o.values.emplace("pad", std::int64_t{2});
    o.values.emplace("mirror", true);
    s.data.augment = check_options(o, augmentation::specs());
  };
  auto alone = several_workers();
  alone.workers = 1;
  const auto want = run(prepared(alone, "shuffle", {}, 1, augmented), 1);
  ASSERT_FALSE(want.bytes().empty());
  EXPECT_NE(want.bytes(), run(prepared(alone, "shuffle", {}, 1), 1).bytes());
  for (std::uint32_t workers : {1u, 2u, 3u, 4u})
    for (const char* kind : {"shuffle", "served", "seeded"})
      for (std::uint64_t seed = 1; seed <= seeds(200) / 20; ++seed) {
        auto shape = several_workers();
        shape.workers = workers;
        const auto got = run(prepared(shape, kind, {}, 3, augmented), seed, true);
        ASSERT_EQ(got.bytes(), want.bytes()) << kind << ", " << workers << " workers, seed " << seed;
        ASSERT_EQ(evaluations(got), evaluations(want)) << kind << ", " << workers << " workers, seed " << seed;
      }
  for (const char* kind : {"shuffle", "replicate", "served", "own_order"}) {
    auto whole = several_workers(), first = whole;
    whole.rule = first.rule = "sgd";
    first.steps = 6;
    const auto unbroken = run(prepared(whole, kind, {}, 3, augmented), 1).bytes();
    const auto half = run(prepared(first, kind, {}, 3, augmented), 2);
    auto j = prepared(whole, kind, {}, 3, augmented);
    begin_at(*j, 6, half.weights);
    EXPECT_EQ(run(j, 3).bytes(), unbroken) << kind << ", resumed at step 6";
  }
}

}  // namespace
}  // namespace troupe::testing
