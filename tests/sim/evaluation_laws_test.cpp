// Invariant of evaluations: every loss and metric has the same value, to rounding, for any batch,
// number of packets, workers, fusing and placement: that of one packet with all examples and no
// padding. Tested over the catalogue, on random nets.
#include <cmath>
#include <map>

#include "tests/runtime/record/record_temp_dir.hpp"
#include "tests/sim/random_net.hpp"

namespace troupe::testing {
namespace {

using named_values = std::vector<std::pair<std::string, double>>;

bool reports_values(const layer_type& row) {
  const auto l = row.make(checked(row.cases.at(0).given, row.specs));
  return l->is_loss() || l->is_metric();
}

std::vector<std::string> counting_types() {
  std::vector<std::string> list;
  for (const auto& name : shared_tables()->layers.names())
    if (reports_values(*shared_tables()->layers.find(name))) list.push_back(name);
  return list;
}

// Returns the values of the job's last evaluation.
named_values evaluated(const std::shared_ptr<prepared_job>& j, std::uint64_t seed) {
  const std::shared_ptr<device> dev = make_cpu_device();
  sim::world_config c;
  c.seed = seed;
  c.dev = dev.get();
  const auto got = run_in_world(j, c);
  EXPECT_EQ(got.error(), "") << "seed " << seed;
  named_values last;
  for (const auto& e : got.events)
    if (e.is<eval_event>()) last = flatten(e).values;
  return last;
}

class evaluation_net {
 public:
  evaluation_net(std::string type, std::uint64_t seed, std::string text)
      : type_(std::move(type)), net_(seed), text_(std::move(text)), row_(*shared_tables()->layers.find(type_)) {}

  // A net around one layer of the type, with the options of one of its cases. lr is 0: the weights
  // keep their initial values.
  job_spec job() {
    case_ = row_.cases[static_cast<std::size_t>(net_.draw(0, static_cast<std::int64_t>(row_.cases.size()) - 1))];
    shape_of_job s;
    s.packets = 1;
    s.steps = 1;
    job_ = small_spec(s);
    job_.seed = static_cast<std::uint64_t>(net_.draw(1, 1000));
    job_.precision = net_.chance(0.5) ? "f64" : "fp32";
    job_.train.lr = 0;
    job_.data.batch = 12;
    job_.layers.clear();
    const bool sequences = case_.integer_labels && net_.chance(0.3);
    if (sequences || case_.in[0].rank() > 2) case_.given.values.erase("class_weights");  // for another number of classes
    sequences ? text() : images();
    at_test();
    extra_outputs();
    taught();
    return job_;
  }

  // Distributes the job in another way. Returns true if the last packet has padding.
  bool cut(job_spec& j, std::int64_t examples) {
    j.pipeline.packets = net_.draw(1, 4);
    j.pipeline.sub_solvers = net_.draw(1, 2);
    j.pipeline.fuse = net_.chance(0.5) ? "auto" : "none";
    j.pipeline.fuse_layers = net_.chance(0.5);
    const auto of_packet = net_.draw(1, 7);
    j.eval.batch = of_packet * j.pipeline.packets;
    bool feature = false;
    nodes_ = static_cast<std::uint32_t>(net_.draw(1, 3));
    if (net_.chance(0.5)) net_.place(j, nodes_, feature);
    if (net_.chance(0.3)) net_.recompute(j, 0.4);
    if (net_.chance(0.2)) j.train.sync = {"downpour", checked({}, shared_tables()->modes.find("downpour")->specs), {}};
    return examples % of_packet != 0;
  }
  std::uint32_t nodes() const { return nodes_; }

 private:
  void add(const std::string& type, std::vector<std::string> inputs, const std::string& name, options o = {}) {
    job_.layers.push_back(layer_of(name, type, std::move(inputs), std::move(o)));
  }

  // Values between 0 and 1, as rbm layers and soft targets need them.
  void images() {
    using i = std::int64_t;
    const auto classes = case_.integer_labels ? case_.classes : i{4};
    job_.data.values = checked(with({{"shape", std::vector<i>{2, 4, 4}},
                                     {"classes", option_value(classes)},
                                     {"examples", option_value(i{24})},
                                     {"test_examples", option_value(net_.draw(3, 25))}}),
                               shared_tables()->sources.find("synthetic")->specs);
    add("convolution", {"data"}, "conv", with({{"outputs", i{3}}, {"kernel", i{3}}, {"pad", i{1}}}));
    add(net_.chance(0.5) ? "relu" : "tanh", {"conv"}, "act");
    const bool flat = case_.integer_labels || net_.chance(0.5);
    const auto made = [&](const std::string& name) {
      if (flat)
        add("linear", {"act"}, name + "_in", with({{"outputs", case_.in[0].count_from(case_.in[0].rank() > 1 ? 1 : 0)}}));
      else
        add("convolution", {"act"}, name + "_in", with({{"outputs", i{2}}, {"kernel", i{2}}}));
      if (case_.integer_labels) return name + "_in";
      add("sigmoid", {name + "_in"}, name);
      return name;
    };
    first_ = made("first");
    if (case_.in.size() > 1 && !case_.integer_labels) second_ = made("second");
  }

  // One label per position of a sequence.
  void text() {
    using i = std::int64_t;
    job_.data.source = "text";
    job_.data.values = checked(with({{"path", text_}, {"sequence", net_.draw(1, 5)}, {"test_fraction", 0.4}}),
                               shared_tables()->sources.find("text")->specs);
    add("embedding", {"data"}, "embed", with({{"vocabulary", i{12}}, {"outputs", i{4}}}));
    add("rnn", {"embed"}, "act", with({{"units", i{5}}}));
    add("linear", {"act"}, "first_in", with({{"outputs", i{12}}, {"axis", i{2}}}));
    first_ = "first_in";
  }

  void at_test() {
    std::vector<std::string> inputs{first_};
    if (case_.in.size() > 1) inputs.push_back(case_.integer_labels ? "label" : second_);
    add(type_, std::move(inputs), "counted", case_.given);
    if (row_.make(checked(case_.given, row_.specs))->is_metric()) job_.layers.back().phase = "test";
  }

  // Reads the further outputs of a layer, tensors of all examples.
  void extra_outputs() {
    const auto outputs = row_.make(checked(case_.given, row_.specs))->infer(case_.in);
    for (std::size_t o = 1; o < outputs.size(); ++o) {
      const auto name = "counted." + std::to_string(o), number = std::to_string(o);
      if (outputs[o] == case_.in[0]) {
        add("euclidean", {name, first_}, "against" + number);
        continue;
      }
      add("linear", {name}, "left" + number, with({{"outputs", std::int64_t{3}}}));
      add("linear", {first_}, "right" + number, with({{"outputs", std::int64_t{3}}}));
      add("euclidean", {"left" + number, "right" + number}, "against" + number);
    }
  }

  // Adds a loss for layers with parameters that have no gradient otherwise: before a metric, and
  // before targets.
  void taught() {
    const auto l = row_.make(checked(case_.given, row_.specs));
    if (!l->is_metric() && (second_.empty() || l->differentiable(1))) return;
    auto from = first_;
    if (!second_.empty()) add("eltwise", {first_, second_}, from = "both");
    if (job_.data.source == "text") return add("softmax_loss", {from, "label"}, "taught");
    add("linear", {from}, "guess", with({{"outputs", std::max<std::int64_t>(4, case_.classes)}}));
    add("softmax_loss", {"guess", "label"}, "taught");
  }

  std::string type_;
  random_net net_;
  std::string text_;
  const layer_type& row_;
  layer_case case_;
  job_spec job_;
  std::string first_, second_;
  std::uint32_t nodes_ = 1;
};

class evaluation_laws : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    std::string text;
    for (int k = 0; k < 70; ++k) text += static_cast<char>('a' + k * k % 11);
    test::write_bytes(dir.file("t.txt"), {text.begin(), text.end()});
  }
  test::temp_dir dir;
};

TEST_P(evaluation_laws, values_do_not_depend_on_batch_or_number_of_packets) {
  std::map<std::string, int> had;
  for (std::uint64_t seed = 1; seed <= seeds(60); ++seed) {
    evaluation_net net(GetParam(), seed, dir.file("t.txt"));
    auto whole = net.job();
    auto probe = prepare_job(whole, shared_tables(), nodes_named(1));
    if (!probe) continue;  // the net cannot have these shapes
    const auto examples = (*probe)->data->size(split::test);
    whole.eval.batch = examples;
    const auto want = evaluated(prepare_job(whole, shared_tables(), nodes_named(1)).value(), seed);
    ASSERT_FALSE(want.empty()) << "seed " << seed;
    for (int again = 0; again < 3; ++again) {
      auto other = whole;
      const bool padded = net.cut(other, examples);
      auto made = prepare_job(other, shared_tables(), nodes_named(net.nodes()));
      if (!made) continue;  // refused: more parts than packets or features, or a mode without placement
      const auto j = *made;
      const auto got = evaluated(j, seed);
      ++had["runs"];
      if (padded) ++had["padded"], ++had["padded, fuse = " + other.pipeline.fuse];
      if (padded && j->plan.placed) ++had["padded, placed"];
      if (padded && other.train.sync.kind == "downpour") ++had["padded, by the tester"];
      ASSERT_EQ(got.size(), want.size()) << "seed " << seed;
      for (std::size_t v = 0; v < want.size(); ++v) {
        EXPECT_EQ(got[v].first, want[v].first);
        const double near = whole.precision == "f64" ? 1e-10 : 2e-5;
        ASSERT_NEAR(got[v].second, want[v].second, near * (1 + std::abs(want[v].second)))
            << want[v].first << ", seed " << seed << ": " << examples << " examples, batch " << other.eval.batch << ", "
            << other.pipeline.packets << " packets, fuse " << other.pipeline.fuse << ", " << other.train.sync.kind;
      }
    }
  }
  for (const char* kind :
       {"runs", "padded", "padded, fuse = auto", "padded, fuse = none", "padded, placed", "padded, by the tester"})
    EXPECT_GT(had[kind], 0) << kind;
}

INSTANTIATE_TEST_SUITE_P(catalogue, evaluation_laws, ::testing::ValuesIn(counting_types()),
                         [](const ::testing::TestParamInfo<std::string>& row) { return row.param; });

}  // namespace
}  // namespace troupe::testing
