// Losses with mean = "batch" over labels of which some do not count: a step is that of one packet
// with all examples, whatever the number of packets, and its bits do not depend on their placement.
#include <cmath>
#include <map>

#include "tests/runtime/record/record_temp_dir.hpp"
#include "tests/sim/small_job.hpp"

namespace troupe::testing {
namespace {

class batch_mean : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    std::string text = "a,b,c,class\n";
    for (int k = 0; k < 24; ++k) {
      const int label = k % 5 == 1 || (k >= 6 && k < 9) ? -1 : k % 3;  // all of a packet of three, few of others
      text += std::to_string(std::sin(k)) + "," + std::to_string(std::cos(3 * k)) + "," + std::to_string(k % 7) + "," +
              std::to_string(label) + "\n";
    }
    test::write_bytes(dir.file("x.csv"), {text.begin(), text.end()});
  }

  job_spec job(std::uint32_t packets, std::uint32_t workers, const std::string& mean, bool weighted = false) const {
    shape_of_job s;
    s.packets = packets, s.workers = workers, s.sub_solvers = packets, s.shards = 2;
    auto j = small_spec(s);
    j.precision = "f64";
    j.data.source = "csv";
    j.data.values =
        checked(with({{"path", dir.file("x.csv")}, {"label", std::string("class")}}), shared_tables()->sources.find("csv")->specs);
    j.data.sampler = {"sequential", checked({}, shared_tables()->samplers.find("sequential")->specs), {}};
    j.data.batch = 12;
    options o = with({{"mean", mean}});
    if (weighted) o.values["class_weights"] = std::vector<double>{0.5, 2, 3};
    j.layers = {layer_of("hidden", "linear", {"data"}, with({{"outputs", std::int64_t{5}}})), layer_of("act", "tanh", {"hidden"}),
                layer_of("score", "linear", {"act"}, with({{"outputs", std::int64_t{3}}})),
                layer_of("loss", GetParam(), {"score", "label"}, o)};
    j.layers.back().key_at["mean"] = {};
    j.eval.every = 0;
    return j;
  }
  static run_result run(const job_spec& j, device& dev) {
    std::vector<node_spec> nodes(1);
    nodes[0].name = "n1";
    auto made = prepare_job(j, shared_tables(), nodes);
    if (!made) {
      ADD_FAILURE() << made.error().front().to_string();
      return {};
    }
    sim::world_config c;
    c.seed = 3;
    c.dev = &dev;
    return run_in_world(*made, c);
  }
  static std::vector<double> losses(const run_result& r) {
    std::vector<double> list;
    for (const auto& e : r.events)
      if (const auto* s = e.as<step_event>()) list.push_back(s->loss);
    return list;
  }
  test::temp_dir dir;
};

TEST_P(batch_mean, is_that_of_one_packet_with_all_examples) {
  const std::shared_ptr<device> dev = make_cpu_device();
  for (const bool weighted : {false, true}) {
    if (weighted && GetParam() != "softmax_loss") continue;
    const auto want = run(job(1, 1, "packet", weighted), *dev);
    ASSERT_FALSE(losses(want).empty());
    for (const std::uint32_t packets : {1, 2, 4}) {
      std::string first;
      for (const std::uint32_t workers : {1, 2}) {
        if (workers > packets) continue;
        const auto got = run(job(packets, workers, "batch", weighted), *dev);
        ASSERT_EQ(got.error(), "");
        ASSERT_EQ(losses(got).size(), losses(want).size());
        for (std::size_t i = 0; i < losses(want).size(); ++i)
          EXPECT_NEAR(losses(got)[i], losses(want)[i], 1e-12) << packets << " " << i;
        ASSERT_EQ(got.weights.size(), want.weights.size());
        for (std::size_t i = 0; i < want.weights.size(); ++i)
          for (std::int64_t k = 0; k < want.weights[i].second.count(); ++k)
            EXPECT_NEAR(got.weights[i].second.data<double>()[k], want.weights[i].second.data<double>()[k], 1e-12)
                << want.weights[i].first << " " << packets << " packets";
        if (first.empty()) first = got.bytes();
        EXPECT_EQ(got.bytes(), first) << packets << " packets, " << workers << " workers";
      }
    }
  }
}

TEST_P(batch_mean, differs_from_the_mean_of_packets_whose_labels_do_not_all_count) {
  const std::shared_ptr<device> dev = make_cpu_device();
  EXPECT_GT(std::fabs(losses(run(job(4, 1, "packet"), *dev)).front() - losses(run(job(1, 1, "packet"), *dev)).front()), 1e-6);
}

TEST_P(batch_mean, must_be_chosen_for_several_packets_if_labels_do_not_count) {
  const auto refusal = [](const job_spec& j) {
    std::vector<node_spec> nodes(1);
    nodes[0].name = "n1";
    const auto made = prepare_job(j, shared_tables(), nodes);
    return made ? std::string() : made.error().front().message;
  };
  auto j = job(4, 1, "packet");
  j.layers.back().key_at.clear();
  EXPECT_NE(refusal(j).find("layer 'loss': some training labels do not count"), std::string::npos) << refusal(j);
  j = job(1, 1, "packet");
  j.layers.back().key_at.clear();
  EXPECT_EQ(refusal(j), "");
}

INSTANTIATE_TEST_SUITE_P(losses, batch_mean, ::testing::Values("softmax_loss", "hinge", "sigmoid_cross_entropy"),
                         [](const auto& p) { return p.param; });

}  // namespace
}  // namespace troupe::testing
