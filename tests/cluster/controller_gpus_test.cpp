// GPUs that nodes report to the cluster controller, also nodes that report what no GPU can have.
#include <cmath>
#include <limits>

#include "tests/cluster/failing_controller.hpp"

namespace troupe::control {
namespace {

class controller_gpus : public controller_failures {
 protected:
  std::vector<repl_gpu> gpus_of(const std::string& node) const {
    repl_view v;
    h_->fill(v, now_);
    for (const auto& n : v.nodes)
      if (n.name == node) return n.gpus;
    return {};
  }
  void reports(const std::vector<repl_gpu>& list) {
    report r;
    r.gpus = list;
    h_->on("n2", r, now_, out_);
  }
};

TEST_F(controller_gpus, are_shown_while_their_node_is_up) {
  begin({"n1", "n2"});
  EXPECT_TRUE(gpus_of("n2").empty());
  repl_gpu g{.number = 1, .name = "H100", .memory_total = 100};
  g.memory_used = 60;
  g.utilisation = 97.5;
  reports({g});
  ASSERT_EQ(gpus_of("n2").size(), 1u);
  EXPECT_EQ(gpus_of("n2")[0].number, 1u);
  EXPECT_EQ(gpus_of("n2")[0].memory_used, 60u);
  EXPECT_EQ(gpus_of("n2")[0].utilisation, 97.5);
  EXPECT_FALSE(gpus_of("n2")[0].temperature);
  EXPECT_TRUE(gpus_of("n1").empty());
  h_->on_peer_down("n2", "gone", now_, out_);
  EXPECT_TRUE(gpus_of("n2").empty());
}

TEST_F(controller_gpus, of_a_hostile_node_are_bounded) {
  begin({"n1", "n2"});
  std::vector<repl_gpu> many;
  for (std::uint32_t n = 0; n < 5000; ++n)
    many.push_back({.number = n, .name = std::string(5000, 'x'), .failure = std::string(5000, 'y')});
  reports(many);
  ASSERT_EQ(gpus_of("n2").size(), max_gpus_shown);
  EXPECT_EQ(gpus_of("n2")[5].name.size(), max_gpu_name);
  EXPECT_EQ(gpus_of("n2")[5].failure.size(), max_gpu_failure);
  reports(std::vector<repl_gpu>(100, repl_gpu{.number = 3}));
  EXPECT_EQ(gpus_of("n2").size(), 1u) << "one number is one GPU";
  reports({{.number = 10000}});
  EXPECT_TRUE(gpus_of("n2").empty());
}

TEST_F(controller_gpus, values_that_no_gpu_can_have_are_unknown) {
  begin({"n1", "n2"});
  repl_gpu g{.name = "a\x1b[2Jb\n\xff"};
  g.memory_total = std::numeric_limits<std::uint64_t>::max();
  g.memory_used = g.memory_total;
  g.held = g.in_use = g.memory_total;
  g.peak = 5;
  g.utilisation = std::nan("");
  g.memory_utilisation = 100.5;
  g.temperature = std::numeric_limits<double>::infinity();
  g.power = -1;
  reports({g});
  const auto s = gpus_of("n2").at(0);
  EXPECT_EQ(s.name, "a\\x1b[2Jb\\x0a\\xff");
  EXPECT_EQ(s.memory_total, 0u);
  EXPECT_FALSE(s.memory_used || s.held || s.in_use || s.utilisation || s.memory_utilisation || s.temperature || s.power);
  EXPECT_EQ(s.peak, 5u);
}

}  // namespace
}  // namespace troupe::control
