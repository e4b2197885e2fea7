// Which neighbouring layers run as one step of maths.
#include "runtime/model/maths_steps.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/model/graph_fixture.hpp"

namespace troupe {
namespace {

using namespace graph_test;
using ::testing::ElementsAre;

// Absorbs every layer.
struct greedy_layer : paper_layer {
  std::shared_ptr<const layer> absorb(const layer&, const shapes&) const override { return std::make_shared<greedy_layer>(); }
};

// data -> a -> b, each with maths that absorb the next.
class two_layers : public ::testing::Test {
 protected:
  two_layers() {
    for (std::uint32_t k = 0; k < 2; ++k) {
      graph_layer l;
      l.index = k;
      l.name = k == 0 ? "a" : "b";
      l.maths = std::make_shared<greedy_layer>();
      l.inputs = {tensor_ref{static_cast<std::int32_t>(k) - 1, 0}};
      if (k == 0) l.inputs = {tensor_ref{from_data, 0}};
      l.in = l.out = {shape{1, 4}};
      l.grad_in_wanted = {true};
      l.wants_backward = true;
      graph_.layers.push_back(std::move(l));
    }
  }
  std::vector<std::string> steps(bool fuse = true) const {
    const std::vector<const graph_layer*> layers{&graph_.layers[0], &graph_.layers[1]};
    std::vector<std::string> names;
    for (const auto& s : maths_steps(graph_, layers, fuse)) names.push_back(name_of(s, layers));
    return names;
  }
  graph_layer& a() { return graph_.layers[0]; }
  graph_layer& b() { return graph_.layers[1]; }

  model_graph graph_;
};

TEST_F(two_layers, run_as_one_step_when_the_first_absorbs_the_second) {
  EXPECT_THAT(steps(), ElementsAre("a+b"));
  EXPECT_THAT(steps(false), ElementsAre("a", "b"));
}

TEST_F(two_layers, run_apart_when_they_run_in_different_phases) {
  for (const bool backward : {true, false}) {
    for (auto* l : {&a(), &b()}) l->wants_backward = backward;
    for (auto* l : {&a(), &b()}) {
      l->in_test = false;
      EXPECT_THAT(steps(), ElementsAre("a", "b")) << l->name << " is not in tests";
      l->in_test = true;
      l->in_train = false;
      EXPECT_THAT(steps(), ElementsAre("a", "b")) << l->name << " is not in training";
      l->in_train = true;
    }
    EXPECT_THAT(steps(), ElementsAre("a+b"));
  }
}

TEST_F(two_layers, run_apart_when_gradients_flow_through_one_of_them_only) {
  a().wants_backward = false;
  EXPECT_THAT(steps(), ElementsAre("a", "b"));
  a().wants_backward = true;
  b().grad_in_wanted = {false};
  EXPECT_THAT(steps(), ElementsAre("a", "b"));
}

TEST_F(two_layers, run_apart_when_one_of_them_is_recomputed) {
  b().recompute = true;
  EXPECT_THAT(steps(), ElementsAre("a", "b"));
}

}  // namespace
}  // namespace troupe
