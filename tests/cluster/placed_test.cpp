// Placed layers on real daemons: the configurations of hybrids, multi-node Caffe and the pipeline.
// After a few steps the weights equal those of one process without placement (bitwise where only
// packets are split), and the bytes sent equal those of the plan.
#include <cmath>
#include <sstream>

#include "actors/embedded.hpp"
#include "runtime/job/job.hpp"
#include "runtime/node/config/cluster_file.hpp"
#include "runtime/node/config/job_file.hpp"
#include "runtime/record/safetensors.hpp"
#include "tests/cluster/modes.hpp"
#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {
namespace {

using named_tensors = std::vector<std::pair<std::string, tensor>>;

// The job without its placement.
std::string unplaced(const std::string& text) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("place") && !line.starts_with("partition") && !line.starts_with("workers_per_group")) out += line + "\n";
  return out;
}

std::shared_ptr<prepared_job> prepared(const std::string& text, const std::vector<std::string>& set,
                                       const std::vector<node_spec>& nodes) {
  const auto all = std::make_shared<const tables>(stock_tables());
  auto spec = parse_job(text, "job.toml", *all, set);
  if (!spec) return ADD_FAILURE() << spec.error().front().to_string(), nullptr;
  auto made = prepare_job(*std::move(spec), all, nodes);
  if (!made) return ADD_FAILURE() << made.error().front().to_string(), nullptr;
  return *made;
}

embedded_result alone(const std::string& text, const std::vector<std::string>& set) {
  node_spec local;
  local.name = "local";
  embedded_options o;
  o.threads = 2;
  embedded_run run(prepared(unplaced(text), set, {local}), o);
  return run.run();
}

// Bytes that all nodes together send in a step, according to the plan.
double planned_bytes(const std::string& text, const std::vector<std::string>& set, const std::string& cluster) {
  const auto c = read_cluster_file(std::string(TROUPE_SOURCE_DIR) + "/configs/clusters/" + cluster);
  const auto j = prepared(text, set, c->nodes);
  double sum = 0;
  for (const auto& [way, bytes] : cost_of(j->plan, j->graph, j->spec).links) sum += bytes;
  return sum;
}

// The largest difference of a tensor's values, relative to the tensor's largest value; the maximum
// over all tensors.
double difference(const named_tensors& a, const named_tensors& b) {
  if (a.size() != b.size()) return 1;
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    double most = 1e-30, off = a[i].first == b[i].first ? 0 : 1;
    for (std::int64_t k = 0; k < a[i].second.count(); ++k) {
      const double x = a[i].second.data<float>()[k], y = b[i].second.data<float>()[k];
      most = std::max(most, std::abs(x));
      off = std::max(off, std::abs(x - y));
    }
    worst = std::max(worst, off / most);
  }
  return worst;
}

std::vector<std::string> short_of(int steps, std::vector<std::string> set = {}) {
  set.push_back("train.finish={steps=" + std::to_string(steps) + "}");
  set.emplace_back("data.test_examples=24");
  set.emplace_back("eval.every=0");
  return set;
}

class cluster_placed : public cluster_test {
 protected:
  run_result good_run(const std::string& text, const std::vector<std::string>& set, const std::string& out = {}) {
    auto r = run(text, set, out);
    EXPECT_EQ(r.outcome.how, cluster_outcome::end::done) << (r.outcome.messages.empty() ? "" : r.outcome.messages.front());
    return r;
  }
  void begin_cluster(const std::string& file) {
    make_cluster_like(file);
    start_all();
  }
  // The bytes of the first weights and of the last evaluation cancel in the difference of two runs.
  void expect_planned_bytes(const std::string& text, const std::vector<std::string>& set, const std::string& cluster) {
    const auto few = good_run(text, short_of(2, set)), many = good_run(text, short_of(6, set));
    const auto measured = (many.value("tcp_bytes") - few.value("tcp_bytes")) / 4;
    const auto planned = planned_bytes(text, set, cluster);
    std::printf("%s: %.0f bytes per step sent, %.0f planned\n", cluster.c_str(), measured, planned);
    EXPECT_NEAR(measured, planned, 0.01 * planned);
  }
};

TEST_F(cluster_placed, multinode_caffes_five_machines_train_to_the_bits_of_one_process) {
  begin_cluster("multinode_caffe.toml");
  const auto text = config_text("multinode_caffe.toml");
  const std::vector<std::string> set{"data.batch=96"};
  const auto r = good_run(text, short_of(3, set));
  EXPECT_EQ(r.text("weights_sha256"), alone(text, short_of(3, set)).weights_sha256);
  expect_planned_bytes(text, set, "multinode_caffe.toml");
}

TEST_F(cluster_placed, a_pipeline_of_four_nodes_trains_to_the_bits_of_one_process) {
  begin_cluster("pipeline4.toml");
  const auto text = config_text("pipeline4.toml");
  const auto r = good_run(text, short_of(20));
  EXPECT_EQ(r.text("weights_sha256"), alone(text, short_of(20)).weights_sha256);
  expect_planned_bytes(text, {"data.batch=2048"}, "pipeline4.toml");
  const std::string bf16 = "job.precision=\"bf16\"";
  const auto narrow = good_run(text, short_of(20, {bf16}));
  EXPECT_EQ(narrow.text("weights_sha256"), alone(text, short_of(20, {bf16})).weights_sha256);
  expect_planned_bytes(text, {"data.batch=2048", bf16}, "pipeline4.toml");
}

TEST_F(cluster_placed, singas_hybrid_computes_the_same_step_as_one_process) {
  begin_cluster("local2.toml");
  const auto text = config_text("singa_hybrid.toml");
  const std::vector<std::string> set{"data.batch=40"};
  good_run(text, short_of(1, set), path("w.safetensors"));
  const auto got = read_safetensors(path("w.safetensors"));
  ASSERT_TRUE(got) << got.error().to_string();
  const auto off = difference(alone(text, short_of(1, set)).weights, got->named);
  std::printf("largest difference after one step: %.2g of the largest weight\n", off);
  EXPECT_LT(off, 1e-5);
  expect_planned_bytes(text, set, "local2.toml");
  const auto gathered = good_run(text, short_of(2, {"data.batch=40", "layer.ip1.gather=true"}));
  EXPECT_EQ(gathered.text("weights_sha256"), good_run(text, short_of(2, set)).text("weights_sha256"));
}

// Partial sums travel: each part sends its addend and the receiver adds them. Compressed edges send
// fewer bytes.
TEST_F(cluster_placed, a_layer_split_along_its_input_computes_the_step_of_one_process) {
  begin_cluster("pipeline4.toml");
  const auto text = config_text("pipeline4.toml");
  std::vector<std::string> set{"layer.ip2.partition=input", R"(layer.ip2.place=["n2", "n3"])", "layer.ip2.fraction=[0.75, 0.25]"};
  good_run(text, short_of(1, set), path("w.safetensors"));
  const auto got = read_safetensors(path("w.safetensors"));
  ASSERT_TRUE(got) << got.error().to_string();
  const auto off = difference(alone(text, short_of(1)).weights, got->named);
  std::printf("largest difference after one step: %.2g of the largest weight\n", off);
  EXPECT_LT(off, 1e-5);
  set.emplace_back("data.batch=2048");
  expect_planned_bytes(text, set, "pipeline4.toml");
  for (const char* wire : {"layer.relu1.wire=bf16", "layer.ip2.wire=int8", "layer.relu3.wire=bf16"}) set.emplace_back(wire);
  const auto cast = good_run(text, short_of(2, set)), again = good_run(text, short_of(2, set));
  EXPECT_EQ(cast.text("weights_sha256"), again.text("weights_sha256"));
  expect_planned_bytes(text, set, "pipeline4.toml");
}

}  // namespace
}  // namespace troupe::testing_cluster
