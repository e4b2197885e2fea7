// Messages that reach a stage while a task has the data of their packet.
#include <gmock/gmock.h>

#include "tests/sim/lone_role.hpp"

namespace troupe::testing {
namespace {

using ::testing::SizeIs;

// The stage of layer `left` (linear) of the small net: one in-edge, one out-edge, parameters.
class stage_lending : public ::testing::Test {
 protected:
  stage_lending() {
    tensors values;
    for (auto p : layer().params) values.push_back(stage.filled(j->graph.params[p].spec.dims, 0.5));
    stage.say(from(j->plan.workers[0]), layer_weights{left, values});
  }
  const graph_layer& layer() const { return j->graph.layers[left]; }
  const plan_edge& in() const { return j->plan.edges[j->plan[stage.self()].in_edges[0]]; }
  const plan_edge& out() const { return j->plan.edges[j->plan[stage.self()].out_edges[0]]; }
  static header of_packet(role_id src) {
    auto h = from(src);
    h.id = msg_id{7};
    return h;
  }
  std::vector<envelope> give_forward() { return stage.say(of_packet(in().from), forward{stage.filled(layer().in[0], 1), 2, 0}); }
  std::vector<envelope> give_backward() { return stage.say(of_packet(out().to), backward{stage.filled(layer().out[0], 1)}); }

  static constexpr std::uint32_t left = 3;
  std::shared_ptr<prepared_job> j = prepare({.packets = 1});
  lone_role stage{j, stage_of(*j, left)};
};

TEST_F(stage_lending, drops_a_second_forward_while_the_task_of_the_first_runs) {
  stage.hold();
  give_forward();
  give_forward();
  EXPECT_EQ(stage.dropped()[drop_reason::repeated], 1u);
  EXPECT_THAT(only<forward>(stage.let_go()), SizeIs(1));
}

TEST_F(stage_lending, drops_a_second_gradient_while_the_task_of_the_first_runs) {
  EXPECT_THAT(only<forward>(give_forward()), SizeIs(1));
  stage.hold();
  give_backward();
  give_backward();
  EXPECT_EQ(stage.dropped()[drop_reason::repeated], 1u);
  const auto sent = stage.let_go();
  EXPECT_THAT(only<gradient>(sent), SizeIs(1));
  EXPECT_THAT(only<backward>(sent), SizeIs(1));
  EXPECT_THAT(only<credit>(sent), SizeIs(1));
}

TEST_F(stage_lending, takes_new_weights_while_a_task_runs) {
  stage.hold();
  give_forward();
  tensors values;
  for (auto p : layer().params) values.push_back(stage.filled(j->graph.params[p].spec.dims, 0.25));
  auto h = from(j->plan.workers[0]);
  h.version = 1;
  stage.say(h, layer_weights{left, values});
  EXPECT_EQ(stage.dropped().total(), 0u);
  EXPECT_THAT(only<forward>(stage.let_go()), SizeIs(1));
}

}  // namespace
}  // namespace troupe::testing
