// Tests of the samplers in embedded runs: the weights follow from the sampler and not from the
// timing of threads.
#include "tests/actors/embedded_support.hpp"

namespace troupe {
namespace {

using namespace testing_embedded;

overrides with(const char* sampler, int workers) {
  return {std::string("train.sampler={ kind = \"") + sampler + "\" }", "topology.workers_per_group=" + std::to_string(workers),
          "pipeline.sub_solvers=2", "eval.every=10", "eval.sampler={ kind = \"sample\", examples = 31 }"};
}

TEST(embedded_samplers, served_and_seeded_have_the_bits_of_shuffle) {
  const auto want = plain_hash(job_of(lenet_like()), 20);
  for (const char* kind : {"served", "seeded", "shuffle"})
    for (int workers : {1, 3, 4}) {
      const auto r = embedded(job_of(lenet_like(), with(kind, workers)));
      ASSERT_TRUE(r.ok) << r.where << ": " << r.error;
      EXPECT_EQ(r.weights_sha256, want) << kind << " " << workers << " workers";
    }
}

TEST(embedded_samplers, samplers_per_worker_are_reproducible_and_differ_from_shuffle) {
  const auto plain = plain_hash(job_of(lenet_like()), 20);
  for (const char* kind : {"shard", "own_order", "replicate"}) {
    const auto first = embedded(job_of(lenet_like(), with(kind, 4)));
    ASSERT_TRUE(first.ok) << first.where << ": " << first.error;
    EXPECT_NE(first.weights_sha256, plain) << kind;
    for (int again = 0; again < 3; ++again)
      EXPECT_EQ(embedded(job_of(lenet_like(), with(kind, 4))).weights_sha256, first.weights_sha256) << kind;
    EXPECT_EQ(embedded(job_of(lenet_like(), with(kind, 1))).weights_sha256, plain) << kind << " alone";
  }
}

// Threads finish reading in any order.
TEST(embedded_samplers, parallel_readers_do_not_change_the_weights) {
  const auto want = plain_hash(job_of(lenet_like()), 20);
  for (const char* kind : {"shuffle", "served", "seeded"})
    for (const char* readers : {"2", "5"}) {
      auto set = with(kind, 2);
      set.push_back(std::string("data.readers=") + readers);
      embedded_options o;
      o.threads = 4;
      const auto r = embedded(job_of(lenet_like(), set), o);
      ASSERT_TRUE(r.ok) << r.where << ": " << r.error;
      EXPECT_EQ(r.weights_sha256, want) << kind << ", " << readers << " readers";
    }
}

TEST(embedded_samplers, augmentation_gives_the_weights_of_the_plain_loop) {
  const overrides augment{"data.augment={ crop = 12, pad = 2, mirror = true, mean = [0.25], scale = [0.5] }"};
  const auto want = plain_hash(job_of(lenet_like(), augment), 20);
  EXPECT_NE(want, plain_hash(job_of(lenet_like()), 20));
  for (const char* kind : {"served", "seeded", "shuffle"})
    for (int workers : {1, 4}) {
      auto set = with(kind, workers);
      set.push_back(augment[0]);
      const auto r = embedded(job_of(lenet_like(), set));
      ASSERT_TRUE(r.ok) << r.where << ": " << r.error;
      EXPECT_EQ(r.weights_sha256, want) << kind << " " << workers << " workers";
    }
}

}  // namespace
}  // namespace troupe
