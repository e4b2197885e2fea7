// Estimated memory of a packet on its way through layers of one node, against counts by hand. One
// element has four bytes. tests/memory compares the estimate with real stages.
#include "runtime/cost/packet_memory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "tests/runtime/model/graph_fixture.hpp"

namespace troupe {
namespace {

using ::testing::ElementsAre;

struct held_layer : graph_test::paper_layer {
  struct backward_needs wants;
  bool replaces = false;
  struct backward_needs backward_needs(const shapes&) const override {
    return wants;
  }
  bool in_place() const override { return replaces; }
};

// Layers built by hand, in the order in which they are added; one stage, unless a layer names
// another.
class packet : public ::testing::Test {
 protected:
  packet() { steps.reserve(8); }  // drafts point into it, so it must not reallocate
  static constexpr tensor_ref data{from_data, 0};
  tensor_ref out(std::size_t layer) const { return {static_cast<std::int32_t>(layer), 0}; }

  struct draft {
    graph_layer* layer;
    held_layer* maths;
    hosted_step* step;
  };
  // `inputs` with the number of elements of each. Inputs from the loader get no gradient.
  draft add(std::vector<std::pair<tensor_ref, std::int64_t>> inputs, std::int64_t outputs) {
    auto& l = layers_.emplace_back();
    const auto maths = std::make_shared<held_layer>();
    l.index = static_cast<std::uint32_t>(layers_.size()) - 1;
    l.maths = maths;
    for (const auto& [t, elements] : inputs) {
      l.inputs.push_back(t);
      l.in.push_back({1, elements});
      l.grad_in_wanted.push_back(t.layer >= 0);
    }
    l.out = {shape{1, outputs}};
    l.wants_backward = true;
    hosted_step s;
    s.first = s.last = &l;
    s.maths = maths;
    s.stage = role_id{1};
    steps.push_back(s);
    return {&l, maths.get(), &steps.back()};
  }
  packet_bytes trained() const { return follow_packet(steps, dtype::f32, true); }
  packet_bytes tested() const { return follow_packet(steps, dtype::f32, false); }

  std::vector<hosted_step> steps;

 private:
  std::deque<graph_layer> layers_;  // steps point to these
};

TEST_F(packet, keeps_inputs_for_backward_only_in_training) {
  add({{data, 10}}, 20);
  add({{out(0), 20}}, 30);
  add({{out(1), 30}}, 1);
  const auto m = trained();
  EXPECT_THAT(m.kept, ElementsAre(80, 120, 0));
  EXPECT_EQ(m.peak, 80 + 120 + 120 + 4) << "the loss's backward: all kept values, its input gradient and its output gradient";
  EXPECT_EQ(m.workspace, 0);
  EXPECT_EQ(tested().peak, 80 + 120) << "a reader's input and output; the loader counts its own";
  EXPECT_THAT(tested().kept, ElementsAre(0, 0, 0));
}

TEST_F(packet, in_place_layer_reuses_an_input_without_other_readers) {
  add({{data, 10}}, 20);
  auto relu = add({{out(0), 20}}, 20);
  relu.maths->wants = {false, true, 0};
  relu.maths->replaces = true;
  add({{out(1), 20}}, 1);
  EXPECT_THAT(trained().kept, ElementsAre(0, 80, 0));
  EXPECT_EQ(trained().peak, 80 + 80 + 4) << "one activation, and its gradient, which relu's backward reuses";
  EXPECT_EQ(tested().peak, 80 + 4);

  relu.maths->wants = {true, false, 0};
  EXPECT_THAT(trained().kept, ElementsAre(80, 80, 0)) << "an input that backward needs is not overwritten";
  EXPECT_EQ(trained().peak, 80 + 80 + 80 + 4);
  EXPECT_EQ(tested().peak, 80 + 4) << "in evaluation there is no backward";
}

TEST_F(packet, a_value_with_two_readers_holds_two_gradients) {
  add({{data, 10}}, 20);
  add({{out(0), 20}}, 10);
  add({{out(0), 20}}, 10);
  add({{out(1), 10}, {out(2), 10}}, 1);
  EXPECT_THAT(trained().kept, ElementsAre(80, 40, 40, 0));
  EXPECT_EQ(trained().peak, 80 + 80 + 40 + 80) << "the second reader's backward: the activation, a gradient, its own two";
  EXPECT_EQ(tested().peak, 80 + 40 + 40) << "the activation is released after its last reader";
}

TEST_F(packet, a_recomputed_layer_keeps_only_its_input) {
  add({{data, 10}}, 20);
  auto again = add({{out(0), 20}}, 30);
  again.layer->recompute = true;
  again.maths->wants = {true, false, 8};
  add({{out(1), 30}}, 10);
  add({{out(2), 10}}, 1);
  EXPECT_THAT(trained().kept, ElementsAre(80, 0, 40, 0));
  EXPECT_EQ(trained().peak, 80 + (120 + 8) + 120 + 80) << "its backward: its input, the recomputed values and two gradients";
  EXPECT_EQ(tested().peak, 80 + 120) << "evaluation saves nothing for a backward";
  again.layer->recompute = false;
  EXPECT_THAT(trained().kept, ElementsAre(80, 128, 40, 0));
  EXPECT_EQ(tested().peak, 80 + 120);
}

TEST_F(packet, an_input_from_another_node_takes_memory_while_it_is_read) {
  add({{out(0), 20}}, 10).layer->index = 1;  // layer 0 is on the other node
  EXPECT_THAT(trained().kept, ElementsAre(80));
  EXPECT_EQ(trained().peak, 80 + 40 + 80) << "input, gradient, and the input's gradient, which is sent away";
  EXPECT_EQ(tested().peak, 80 + 40);
}

TEST_F(packet, a_gradient_that_was_sent_away_takes_no_memory_in_later_backwards) {
  add({{data, 10}}, 40);
  add({{out(1), 20}}, 1).layer->index = 2;  // layer 1 is on the other node
  EXPECT_EQ(trained().peak, 80 + 4 + 80) << "the second layer's backward: input, output gradient, input gradient";
}

TEST_F(packet, a_convolution_needs_workspace_for_a_block_of_images) {
  auto conv = add({{data, 10}}, 1);
  conv.layer->type = "convolution";
  conv.layer->in = {shape{64, 2}};
  conv.layer->out = {shape{64, 4}};
  conv.step->weights = 100;
  EXPECT_THAT(tested().working, ElementsAre(100 + (512 + 1024) / 2)) << "of 32 images";
  EXPECT_EQ(tested().peak, 1024 + 868);
  EXPECT_EQ(tested().workspace, 868);
  conv.step->transforms = 5000;
  EXPECT_THAT(tested().working, ElementsAre(5000));
  conv.layer->type = "linear";
  EXPECT_THAT(tested().working, ElementsAre(0));
}

TEST_F(packet, has_its_peak_at_a_later_layer_when_that_needs_more_workspace) {
  add({{data, 10}}, 250);
  auto conv = add({{out(0), 250}}, 10);
  conv.layer->type = "convolution";
  conv.step->transforms = 5000;
  const auto m = tested();
  EXPECT_EQ(m.peak, 1000 + 40 + 5000);
  EXPECT_EQ(m.workspace, 5000);
}

TEST_F(packet, counts_layers_that_run_in_training_without_a_backward) {
  auto frozen = add({{data, 10}}, 20);
  frozen.layer->wants_backward = false;
  auto last = add({{out(0), 20}}, 2);
  last.layer->grad_in_wanted = {false};
  EXPECT_EQ(trained().peak, 80 + 8) << "the output of the first layer, while the second one runs; both outputs";
}

TEST_F(packet, skips_layers_of_the_other_phase) {
  add({{data, 10}}, 20);
  auto metric = add({{out(0), 20}}, 1);
  metric.layer->in_train = false;
  metric.layer->wants_backward = false;
  add({{out(0), 20}}, 2).layer->in_test = false;
  EXPECT_EQ(tested().peak, 80 + 4);
  EXPECT_EQ(trained().peak, 80 + 80 + 8);
}

}  // namespace
}  // namespace troupe
