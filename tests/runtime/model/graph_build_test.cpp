// build_graph: graphs of valid jobs, and the reports of mistakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/model/graph_fixture.hpp"

namespace troupe {
namespace {

using namespace graph_test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

model_graph graph_of(const job_spec& j) {
  auto r = try_graph(j);
  if (!r) {
    for (const auto& t : texts(r.error())) ADD_FAILURE() << t;
    return {};
  }
  return *std::move(r);
}

diagnostics errors_of(const job_spec& j, std::int64_t classes = 10) {
  auto r = try_graph(j, shape{4, 5}, classes);
  return r ? diagnostics{} : r.error();
}

std::string only_error(const job_spec& j, std::int64_t classes = 10) {
  const auto e = errors_of(j, classes);
  EXPECT_EQ(e.size(), 1u) << ::testing::PrintToString(texts(e));
  return e.empty() ? "" : e.front().to_string();
}

TEST(graph, small_net_has_the_expected_shapes_parameters_and_offsets) {
  const auto j = small_net();
  const auto g = graph_of(j);
  ASSERT_EQ(g.layers.size(), 5u);
  EXPECT_EQ(g.packet_examples, 2);
  EXPECT_EQ(g.data, (shape{2, 4, 5}));
  EXPECT_EQ(g.label, shape{2});
  EXPECT_EQ(g.layers[2].in[0], (shape{2, 30}));
  EXPECT_EQ(g.layers[2].out[0], (shape{2, 10}));
  EXPECT_EQ(g.layers[2].spec, &j.layers[2]);
  ASSERT_EQ(g.params.size(), 4u);
  EXPECT_EQ(g.params[1].full_name, "a.bias");
  EXPECT_EQ(g.params[1].offset, 600);
  EXPECT_EQ(g.params[2].offset, 630);
  EXPECT_EQ(g.params[3].layer, 2u);
  EXPECT_EQ(g.parameter_count, 630 + 310);
  EXPECT_EQ(g.flops_per_packet(), 2.0 * 2 * 20 * 30 + 2.0 * 2 * 30 * 10);
}

TEST(graph, multipliers_include_the_scales_of_the_layer) {
  auto j = small_net();
  j.layers[0].lr_scale = 3;
  j.layers[0].decay_scale = 0.5;
  const auto g = graph_of(j);
  EXPECT_EQ(g.params[0].spec.lr_multiplier, 3);
  EXPECT_EQ(g.params[0].spec.decay_multiplier, 0.5);
  EXPECT_EQ(g.params[1].spec.lr_multiplier, 6);
  EXPECT_EQ(g.params[1].spec.decay_multiplier, 0.5) << "the key replaces the layer's own multiplier, 0";
  EXPECT_EQ(g.params[3].spec.decay_multiplier, 0) << "the key is absent";
}

TEST(graph, gradients_flow_only_between_a_trained_parameter_and_a_loss) {
  auto j = job_of({spec("first", "same", {"data"}), spec("a", "dense", {"first"}, 30), spec("side", "same", {"a"}),
                   spec("seen", "metric", {"side", "label"}), spec("loss", "loss", {"a", "label"})});
  const auto g = graph_of(j);
  EXPECT_FALSE(g.layers[0].wants_backward);
  EXPECT_TRUE(g.layers[1].wants_backward);
  EXPECT_THAT(g.layers[1].grad_in_wanted, ElementsAre(false));
  EXPECT_FALSE(g.layers[2].wants_backward) << "only a metric uses its output";
  EXPECT_THAT(g.layers[4].grad_in_wanted, ElementsAre(true, false));
  EXPECT_EQ(g.layers[4].loss_weight, 1.0);
  EXPECT_EQ(g.layers[3].loss_weight, 0.0);
}

TEST(graph, order_is_topological_and_ties_follow_the_file) {
  auto j = job_of({spec("loss", "loss", {"join", "label"}), spec("join", "sum", {"right", "left"}),
                   spec("left", "dense", {"data"}, 10), spec("right", "dense", {"data"}, 10)});
  const auto g = graph_of(j);
  std::vector<std::string> names;
  for (const auto& l : g.layers) names.push_back(l.name);
  EXPECT_THAT(names, ElementsAre("left", "right", "join", "loss"));
  EXPECT_EQ(g.layers[2].inputs[0], (tensor_ref{1, 0}));
  EXPECT_THAT(g.consumers({0, 0}), ElementsAre(tensor_ref{2, 1}));
}

TEST(graph, second_output_is_selected_with_a_dot) {
  auto j = job_of({spec("a", "dense", {"data"}, 20), spec("cut", "halves", {"a"}), spec("join", "sum", {"cut", "cut.1"}),
                   spec("loss", "loss", {"join", "label"})});
  const auto g = graph_of(j);
  EXPECT_EQ(g.layers[2].inputs[1], (tensor_ref{1, 1}));
  j.layers[2].inputs[1] = "cut.2";
  EXPECT_THAT(only_error(j), HasSubstr("job.toml:32:21: layer 'join': layer 'cut' has 2 output(s), but no output 2"));
  j.layers[2].inputs = {"cut", "cut"};
  EXPECT_THAT(only_error(j), HasSubstr("layer 'cut': its output 1 is not used by any layer"));
}

TEST(graph, layers_read_only_inputs_that_run_in_the_same_phase) {
  const auto g = graph_of(small_net());
  EXPECT_FALSE(g.layers[3].in_train);
  EXPECT_TRUE(g.layers[3].in_test);
  auto j = small_net();
  j.layers[1].phase = "test";
  const auto e = errors_of(j);
  ASSERT_FALSE(e.empty());
  EXPECT_THAT(e[0].to_string(),
              HasSubstr("job.toml:32:20: layer 'b': it runs in training, but its input layer 'relu' runs only in tests"));
  j = small_net();
  j.layers[4].phase = "test";
  EXPECT_THAT(only_error(j), HasSubstr("job.toml:1:1: no loss layer runs in training"));
}

TEST(graph, cycle_is_reported_in_the_direction_of_data_flow) {
  auto j = job_of(
      {spec("a", "sum", {"data", "c"}), spec("b", "same", {"a"}), spec("c", "same", {"b"}), spec("loss", "loss", {"c", "label"})});
  EXPECT_EQ(only_error(j), "job.toml:11:9: layer 'a': the layers form a cycle: a -> b -> c -> a");
  j.layers[0].inputs[1] = "a";
  EXPECT_THAT(errors_of(j)[0].to_string(), HasSubstr("a -> a"));
}

TEST(graph, several_mistakes_are_reported_in_one_run) {
  auto j = small_net();
  j.layers[0].type = "dnse";
  j.layers[1].inputs[0] = "b2";
  j.layers[2].inputs.clear();
  j.layers[3].name = "a";
  j.pipeline.packets = 3;
  EXPECT_THAT(
      texts(errors_of(j)),
      ElementsAre(HasSubstr("job.toml:3:11: packets must divide the batch: 8 examples cannot be split into 3 equal packets"),
                  "job.toml:11:9: layer 'a': unknown layer type 'dnse'; did you mean 'dense'?",
                  HasSubstr("job.toml:41:9: duplicate layer name 'a'; first used at job.toml:11:9"),
                  "job.toml:22:20: layer 'relu': unknown input 'b2'; did you mean 'b'?",
                  "job.toml:31:9: layer 'b': it has no inputs: add them, as in inputs = [\"relu\"]"));
}

TEST(graph, each_kind_of_mistake_is_reported) {
  struct mistake {
    const char* what;
    void (*make)(job_spec&);
    const char* message;
  };
  const mistake list[] = {
      {"no layers", [](job_spec& j) { j.layers.clear(); }, "job.toml:1:1: the job has no layers"},
      {"empty name", [](job_spec& j) { j.layers[4].name = ""; }, "job.toml:51:9: a layer needs a name"},
      {"reserved name", [](job_spec& j) { j.layers[4].name = "label"; }, "cannot be called 'label'"},
      {"odd name", [](job_spec& j) { j.layers[4].name = "lo.ss"; }, "the layer name 'lo.ss' contains"},
      {"too many inputs", [](job_spec& j) { j.layers[4].inputs.push_back("a"); },
       "a loss layer takes 2 inputs, not 3 (b, label, a)"},
      {"shapes",
       [](job_spec& j) {
         j.layers[1] = spec("relu", "sum", {"a", "data"});
       },
       "layer 'relu': adds 2x30 and 2x4x5"},
      {"label as values", [](job_spec& j) { j.layers[1].inputs[0] = "label"; },
       "layer 'relu': input 0 of a same layer takes values"},
      {"unused", [](job_spec& j) { j.layers.push_back(spec("idle", "same", {"a"})); },
       "layer 'idle': its output is not used by any layer"},
      {"unused parameters",
       [](job_spec& j) {
         j.layers[2].phase = "test";
         j.layers[4].inputs[0] = "a";
       },
       "layer 'b': it has parameters, but no loss in training depends on it"},
      {"no loss", [](job_spec& j) { j.layers.pop_back(); }, "no loss layer runs in training"},
      {"missing option", [](job_spec& j) { j.layers[0].values.values.clear(); }, "option 'outputs' is missing"},
      {"too few scores", [](job_spec& j) { j.layers[2].values.values["outputs"] = std::int64_t{9}; },
       "its input 'b' (2x9) has 9 scores an example, but the data has 10 classes"},
      {"batch", [](job_spec& j) { j.data.batch = 0; }, "batch must be between 1 and"},
      {"packets", [](job_spec& j) { j.pipeline.packets = 70000; }, "packets must be between 1 and 65535"},
      {"huge",
       [](job_spec& j) {
         j.data.batch = 2147483644;
         j.layers[0].values.values["outputs"] = std::int64_t{1000000};
       },
       "layer 'a': its output 536870911x1000000 would be empty or too large"},
      {"nothing to train",
       [](job_spec& j) {
         j.layers = {spec("loss", "loss", {"data", "label"})};
       },
       "no layer has trainable parameters"},
  };
  for (const auto& m : list) {
    SCOPED_TRACE(m.what);
    auto j = small_net();
    m.make(j);
    const auto e = errors_of(j);
    ASSERT_FALSE(e.empty());
    EXPECT_THAT(texts(e), ::testing::Contains(HasSubstr(m.message)));
  }
}

TEST(graph, option_beyond_31_bits_is_refused_at_its_layer) {
  auto j = small_net();
  j.layers[0].values.values["outputs"] = std::int64_t{1} << 40;
  EXPECT_THAT(only_error(j), HasSubstr("layer 'a': option 'outputs' must be at most 2147483647, not 1099511627776"));
}

TEST(graph, evaluation_with_a_tensor_beyond_the_size_limit_is_refused) {
  auto j = small_net();
  j.eval.batch = 2147483644;
  j.layers[0].values.values["outputs"] = std::int64_t{1000000};
  EXPECT_THAT(only_error(j), HasSubstr("layer 'a': in packets of 536870911 examples (from [eval] batch) its output 2x1000000 "
                                       "would be too large"));
}

TEST(graph, packet_beyond_the_tensor_size_limit_is_refused_at_the_batch) {
  auto j = small_net(2147483647, 1);
  j.data.key_at["batch"] = {"job.toml", 2, 5};
  const auto g = try_graph(j, shape{1024, 1024});
  ASSERT_FALSE(g);
  EXPECT_THAT(texts(g.error()),
              ElementsAre("job.toml:2:5: a packet of the batch would have the shape 2147483647x1024x1024, which is too large"));
}

// The parameters of one layer are within the limit, 1023 for each of 2^30 values; those of two such
// layers are not.
TEST(graph, parameter_limit_is_reported_at_the_layer_that_exceeds_it) {
  auto j = job_of({spec("a", "dense", {"data"}, 1023), spec("b", "dense", {"data"}, 1023), spec("both", "sum", {"a", "b"}),
                   spec("loss", "loss", {"both", "label"})});
  const auto huge = shape{1 << 15, 1 << 15};
  const auto g = try_graph(j, huge);
  ASSERT_FALSE(g);
  EXPECT_THAT(texts(g.error()), ElementsAre(HasSubstr("layer 'b': with this parameter the model has more than 2^40 parameters")));
  j.layers[1].inputs = {"a"};
  EXPECT_TRUE(try_graph(j, huge).has_value());
}

TEST(graph, label_input_is_refused_if_the_source_has_no_labels) {
  const auto e = errors_of(small_net(), 0);
  ASSERT_EQ(e.size(), 2u);
  EXPECT_EQ(e[0].to_string(), "job.toml:42:21: layer 'accuracy': the source 'synthetic' has no labels");
}

}  // namespace
}  // namespace troupe
