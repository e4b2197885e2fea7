// Shared parameters in the world: roles of one node add to one array without a lock, in virtual
// time.
#include <gtest/gtest.h>

#include "ops/tensor_values.hpp"
#include "runtime/sim/world.hpp"

namespace troupe::sim {
namespace {

constexpr std::int64_t element_count = 4096;

// Adds ones `times` times, one after the other, then reads.
class adder final : public role {
 public:
  adder(device* dev, int times) : dev_(dev), left_(times) {}
  void on(const envelope&, time_point, effects& out) override {
    if (left_ < 0) return;
    if (left_-- > 0) return out.shared({shared_effect::kind_of::add, 7, ones(), 1});
    seen = std::make_shared<tensor>(tensor::declare({element_count}, dtype::f32));
    out.shared({shared_effect::kind_of::read, 7, seen, 2});
  }
  std::shared_ptr<tensor> seen;

 private:
  std::shared_ptr<tensor> ones() {
    auto t = std::make_shared<tensor>(tensor::declare({element_count}, dtype::f32));
    if (dev_) {
      t->back(*dev_);
      dev_->fill(1, *t);
    }
    return t;
  }
  device* dev_;
  int left_;
};

struct adding_outcome {
  float highest = 0;
  std::uint64_t lost = 0;
  time_point end{};
  std::uint64_t trace = 0;
};

// Runs adders with ten additions each. `nodes[i]`: the node of adder i.
adding_outcome add(const std::vector<std::uint32_t>& nodes, device* dev, unsigned cores) {
  world_config c;
  c.dev = dev;
  c.compute.cores = cores;
  sim::world w(c);
  for (std::uint32_t i = 0; i < nodes.size(); ++i) w.add(role_id{i}, nodes[i], std::make_unique<adder>(dev, 10));
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    envelope e;
    e.h.dst = role_id{i};
    e.body = start{};
    w.inject(e);
  }
  EXPECT_TRUE(w.run(100'000));
  adding_outcome o;
  for (std::uint32_t i = 0; dev && i < nodes.size(); ++i)
    o.highest = std::max(o.highest, at_home(*dev, *static_cast<adder*>(w.find(role_id{i}))->seen).data<float>()[0]);
  o.lost = w.counts().lost_updates;
  o.end = w.now();
  o.trace = w.trace_hash();
  return o;
}

TEST(shared_world, one_role_loses_no_addition) {
  const auto dev = make_cpu_device();
  const auto o = add({0}, dev.get(), 2);
  EXPECT_EQ(o.highest, 10.0f);
  EXPECT_EQ(o.lost, 0u);
  // Ten additions of 3 x 16 KiB and a read of 2 x 16 KiB at 10 GB/s, plus half a microsecond each.
  const double bytes = (10 * 3 + 2) * element_count * 4.0;
  EXPECT_NEAR(static_cast<double>(o.end.count()), bytes / 10 + 11 * 500, 100);
}

TEST(shared_world, concurrent_roles_lose_additions_and_the_loss_is_counted) {
  const auto dev = make_cpu_device();
  const auto o = add({0, 0}, dev.get(), 2);
  EXPECT_GT(o.lost, 0u);
  EXPECT_LT(o.highest, 20.0f);
  EXPECT_GE(o.highest, 10.0f);
  EXPECT_EQ(add({0, 0}, nullptr, 2).lost, o.lost) << "without maths the same losses are counted";
  EXPECT_EQ(add({0, 0}, nullptr, 2).trace, o.trace);
}

TEST(shared_world, roles_on_one_core_lose_no_addition) {
  const auto dev = make_cpu_device();
  const auto o = add({0, 0}, dev.get(), 1);
  EXPECT_EQ(o.lost, 0u);
  EXPECT_EQ(o.highest, 20.0f);
}

TEST(shared_world, each_node_has_its_own_array) {
  const auto dev = make_cpu_device();
  const auto o = add({0, 1}, dev.get(), 2);
  EXPECT_EQ(o.lost, 0u);
  EXPECT_EQ(o.highest, 10.0f);
}

}  // namespace
}  // namespace troupe::sim
