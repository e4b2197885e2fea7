// The worker sync of bsp without a world, message by message.
#include "tests/sim/small_job.hpp"

namespace troupe::testing {
namespace {

// Three packets of five: the worker pushes packets [0, 2), which needs an addition, and [2, 3),
// which needs none. A step whose last gradient needs no addition is not over while the addition of
// the others runs.
TEST(bsp_worker, step_is_not_over_while_a_sum_is_computed) {
  const std::shared_ptr<device> dev = make_cpu_device();
  shape_of_job s;
  s.packets = 5;
  s.workers = 2;
  const auto j = prepare(s);
  ASSERT_EQ(j->plan.ranges[0].count, 3u);
  const auto self = make_role(j, j->plan.workers[0]);
  const auto layer = j->graph.params[j->plan.blocks[0].param].layer;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pushed;  // of one block: first, span
  std::vector<run_effect> running;
  const auto say = [&](header h, message m) {
    effects out;
    self->on({h, std::move(m)}, {}, out);
    for (auto& x : out.list()) {
      if (auto* r = std::get_if<run_effect>(&x)) running.push_back(*r);
      if (auto* e = std::get_if<send_effect>(&x))
        if (const auto* p = std::get_if<push>(&e->e.body); p && p->block == j->plan.blocks[0].id)
          pushed.emplace_back(p->first, p->span);
    }
  };
  for (std::uint32_t packet = 0; packet < 3; ++packet) {
    header h;
    h.src = stage_of(*j, layer);
    h.packet = packet;
    tensors grads;
    for (auto p : j->graph.layers[layer].params) {
      grads.push_back(tensor::allocate(*dev, j->graph.params[p].spec.dims, dtype::f32));
      dev->fill(1, grads.back());
    }
    say(h, gradient{layer, grads, {}});
  }
  ASSERT_EQ(running.size(), 1u);
  EXPECT_EQ(pushed, (std::vector<std::pair<std::uint32_t, std::uint32_t>>{{2, 1}}));
  task_context c{*dev};
  running[0].work(c);
  say({}, finished{running[0].token});
  EXPECT_EQ(pushed, (std::vector<std::pair<std::uint32_t, std::uint32_t>>{{2, 1}, {0, 2}}));
}

}  // namespace
}  // namespace troupe::testing
