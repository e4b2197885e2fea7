// Promises 2 and 3 (docs/promises.md): packets between daemons are dropped for a while, in one or
// both directions, on either plane. Three seconds have no effect. After more, the job continues
// without the node and adds it again later. A link that is busy for long does not count as dead.
#include "tests/faults/cuts.hpp"

namespace troupe::testing_cluster {
namespace {

class cluster_cut : public cut_test {
 protected:
  cluster_cut() : cut_test(TROUPE_BIN_DIR) {}
  static std::size_t losses(const run_result& r) { return r.count("recovered") + r.count("moved"); }
};

TEST_F(cluster_cut, three_seconds_without_a_packet_are_no_node_failure) {
  make_nodes(3);
  if (IsSkipped()) return;
  const auto set = workers(3, 2);
  auto b = begin(tiny_job(), endless(set));
  for (const auto& [p, d] : {std::pair{plane::control, direction::both},
                             {plane::control, direction::away},
                             {plane::data, direction::both},
                             {plane::data, direction::back},
                             {plane::both, direction::both}}) {
    SCOPED_TRACE(std::string(name_of(p)) + ", " + name_of(d));
    ASSERT_TRUE(b->wait_event("step", 20s, steps_now() + 50));
    cut("n2", {"n1", "n3"}, p, d);
    until(3s);
    const auto cut_for = heal();
    const auto healed = clock::now();
    // A question may have to wait for TCP to send lost packets again, longer than for one answer.
    bool answered = false;
    for (int tries = 0; tries < 4 && !answered; ++tries) answered = ask("n2", "jobs").how == repl_reply::kind::ok;
    ASSERT_TRUE(answered) << "n2 forwards it to n1";
    ASSERT_TRUE(b->wait_event("step", 20s, steps_now() + 50));
    std::printf("cut for %d ms (%s, %s): training continued within %d ms after the end\n", static_cast<int>(cut_for.count()),
                name_of(p), name_of(d), static_cast<int>(since(healed).count()));
  }
  const auto r = expect_same_weights(*b, tiny_job(), [&] {
    auto s = set;
    s.emplace_back("eval.every=0");
    return s;
  }());
  EXPECT_EQ(losses(r), 0u) << "no node was declared lost";
}

TEST_F(cluster_cut, a_node_cut_off_for_ten_seconds_is_left_out_and_added_again) {
  make_nodes(3);
  if (IsSkipped()) return;
  auto set = workers(3, 1);
  auto b = begin(tiny_job(), endless(set));
  ASSERT_TRUE(b->wait_event("step", 20s, 50));
  cut("n3", {"n1", "n2"}, plane::both, direction::both);
  ASSERT_TRUE(b->wait_event("recovered", 10s));
  const auto without = since(cut_at_);
  EXPECT_TRUE(b->wait_event("step", 20s, steps_now() + 50)) << "the job continues without n3";
  until(10s);
  heal();
  const auto healed = clock::now();
  ASSERT_TRUE(b->wait_event("moved", 20s)) << "n3 is added again";
  std::printf("cut for 10 s: continued without the node after %d ms, added it %d ms after the end\n",
              static_cast<int>(without.count()), static_cast<int>(since(healed).count()));
  EXPECT_TRUE(b->wait_event("step", 20s, steps_now() + 50));
  set.emplace_back("eval.every=0");
  const auto r = expect_same_weights(*b, tiny_job(), set);
  EXPECT_EQ(r.count("recovered"), 1u);
}

// A tensor of 6 MiB takes five seconds on this link, in each direction.
TEST_F(cluster_cut, a_slow_link_with_a_large_tensor_is_no_node_failure) {
  make_nodes(2);
  if (IsSkipped()) return;
  net_->set_rate("n2", "10mbit");
  auto set = workers(2, 1);
  set.insert(set.end(), {"layer.ip1.outputs=11000", "topology.max_block=67108864", "train.finish.steps=1", "eval.every=0"});
  const auto begun = clock::now();
  const auto r = run(tiny_job(), set);
  EXPECT_EQ(r.outcome.exit_code(), 0) << (r.outcome.messages.empty() ? "" : r.outcome.messages.front());
  EXPECT_EQ(losses(r), 0u) << "a live node was declared lost";
  std::printf("a tensor of 6 MiB over 10 Mbit/s: a step in %d ms, no node declared lost\n", static_cast<int>(since(begun).count()));
  EXPECT_GT(since(begun), 9s) << "the link was not slow";
}

}  // namespace
}  // namespace troupe::testing_cluster
