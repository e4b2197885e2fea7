// Every reducer on real daemons: the weights have the bits of the embedded run (for a ring: of an
// embedded ring of as many workers), and the bytes sent equal the formula.
#include "runtime/spec/codec_spec.hpp"
#include "tests/cluster/embedded_hash.hpp"
#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {
namespace {

class cluster_reducers : public cluster_test {
 protected:
  void SetUp() override {
    make_cluster(3);
    start_all();
  }
  static std::vector<std::string> with_workers(int n, const std::string& exchange) {
    return {"topology.workers_per_group=" + std::to_string(n), "train.exchange=" + exchange};
  }
};

TEST_F(cluster_reducers, train_to_the_bits_of_the_embedded_run) {
  const auto alone = embedded_hash(tiny_job(), {});
  for (const char* exchange :
       {R"({reducer="tree"})", R"({reducer="sharded"})", R"({reducer="hierarchical"})",
        R"({reducer="hierarchical",between="server"})", R"({reducer="hierarchical",between="tree"})", R"({reducer="auto"})"})
    for (int workers : {3, 4}) {
      const auto r = run(tiny_job(), with_workers(workers, exchange));
      ASSERT_EQ(r.outcome.how, cluster_outcome::end::done)
          << exchange << " " << (r.outcome.messages.empty() ? "" : r.outcome.messages.front());
      EXPECT_EQ(r.text("weights_sha256"), alone) << exchange << ", " << workers << " workers";
    }
}

TEST_F(cluster_reducers, a_ring_trains_to_the_bits_of_a_ring_in_one_process) {
  for (int workers : {2, 3}) {
    const auto set = with_workers(workers, R"({reducer="ring"})");
    const auto r = run(tiny_job(), set);
    ASSERT_EQ(r.outcome.how, cluster_outcome::end::done) << (r.outcome.messages.empty() ? "" : r.outcome.messages.front());
    EXPECT_EQ(r.text("weights_sha256"), embedded_hash(tiny_job(), set)) << workers;
  }
}

// Bytes that all nodes together send, with W bytes of weights and N nodes: 2 W (N-1) per step with
// every reducer, W (N-1) at the start, and W (N-1)/N to the coordinator at the end.
TEST_F(cluster_reducers, move_the_bytes_of_their_formula) {
  const double w = 4 * (40 + 144 * 2000 + 2000 + 2000 * 4 + 4), n = 3, steps = 50;
  const auto expected = steps * 2 * w * (n - 1) + w * (n - 1) + w * (n - 1) / n;
  for (const char* exchange : {R"({reducer="sharded"})", R"({reducer="ring"})", R"({reducer="server"})"}) {
    auto set = with_workers(3, exchange);
    set.insert(set.end(), {"eval.every=0", "train.finish.steps=50", "pipeline.packets=6", "layer.ip1.outputs=2000"});
    const auto r = run(tiny_job(), set);
    ASSERT_EQ(r.outcome.how, cluster_outcome::end::done)
        << exchange << " " << (r.outcome.messages.empty() ? "" : r.outcome.messages.front());
    std::printf("%s: %.4f of 2 W (N-1) per step\n", exchange, r.value("tcp_bytes") / expected);
    EXPECT_NEAR(r.value("tcp_bytes"), expected, 0.01 * expected) << exchange;
  }
}

TEST_F(cluster_reducers, with_codecs_train_to_the_bits_of_the_embedded_run) {
  for (const char* exchange : {R"({compress="int8"})", R"({reducer="sharded",compress="onebit"})",
                               R"({reducer="sharded",compress="topk",fraction=0.1})", R"({compress="threshold"})"}) {
    const auto set = with_workers(3, exchange);
    const auto r = run(tiny_job(), set);
    ASSERT_EQ(r.outcome.how, cluster_outcome::end::done)
        << exchange << " " << (r.outcome.messages.empty() ? "" : r.outcome.messages.front());
    EXPECT_EQ(r.text("weights_sha256"), embedded_hash(tiny_job(), set)) << exchange;
  }
}

// Gradients are encoded, weights are sent uncompressed.
TEST_F(cluster_reducers, with_codecs_move_the_bytes_of_their_formula) {
  const double n = 3, steps = 50;
  for (auto kind : {codec_kind::fp16, codec_kind::int8, codec_kind::onebit}) {
    double w = 0, encoded = 0;
    for (std::int64_t of_one : {36, 4, 144 * 2000, 2000, 2000 * 4, 4}) {
      w += 4.0 * static_cast<double>(of_one);
      encoded += static_cast<double>(encoded_bytes({kind}, of_one, dtype::f32));
    }
    const auto expected = steps * (w + encoded) * (n - 1) + w * (n - 1) + w * (n - 1) / n;
    auto set = with_workers(3, std::string(R"({compress=")") + name_of(kind) + R"("})");
    set.insert(set.end(),
               {"eval.every=0", "train.finish.steps=50", "pipeline.packets=3", "data.batch=24", "layer.ip1.outputs=2000"});
    const auto r = run(tiny_job(), set);
    ASSERT_EQ(r.outcome.how, cluster_outcome::end::done) << name_of(kind);
    std::printf("%s: %.4f of the formula\n", name_of(kind), r.value("tcp_bytes") / expected);
    EXPECT_NEAR(r.value("tcp_bytes"), expected, 0.01 * expected) << name_of(kind);
  }
}

}  // namespace
}  // namespace troupe::testing_cluster
