// Many nodes on a slow machine: all of them take long, but one after the other joins, is connected
// and is ready. Deadlines count from the last of these.
#include "runtime/cluster/controller/member.hpp"
#include "tests/cluster/failing_controller.hpp"

namespace troupe::control {
namespace {

class controller_slow : public controller_failures {
 protected:
  void submit_on(const std::vector<std::string>& nodes) {
    h_.emplace(cluster_, "n1", std::uint16_t{7});
    joins("n1");
    h_->on("client.1", submit{{"job.toml", "text", {}}, true, 5}, now_, out_);
    id_ = ordered_in<check_text>(out_).back().job;
    h_->on_checked(id_, plan(nodes), now_, out_);
    out_.clear();
  }
  void pass(std::chrono::milliseconds t) {
    now_ += t;
    h_->on_tick(now_, out_);
  }
};

TEST_F(controller_slow, a_job_waits_for_nodes_while_one_after_the_other_joins) {
  submit_on({"n1", "n2", "n3", "n4"});
  for (const char* n : {"n2", "n3", "n4"}) {
    EXPECT_EQ(sent<prepare>().size(), 0u) << n;
    pass(7s);
    EXPECT_FALSE(asked()) << "no node is left out before " << n << " joins";
    joins(n);
  }
  EXPECT_EQ(sent<prepare>().size(), 4u);
}

TEST_F(controller_slow, a_job_begins_without_a_node_eight_seconds_after_the_last_one_has_joined) {
  submit_on({"n1", "n2", "n3"});
  pass(7s);
  joins("n2");
  joins("n4");  // not of this job
  pass(4s);
  joins("n4");
  pass(3900ms);
  EXPECT_FALSE(asked());
  pass(200ms);
  ASSERT_TRUE(asked());
  EXPECT_EQ(lost_nodes(), std::vector<std::string>{"n3"});
}

TEST_F(controller_slow, a_job_does_not_fail_while_one_node_after_the_other_is_ready) {
  submit_on({"n1", "n2", "n3"});
  joins("n2");
  joins("n3");
  for (const char* n : {"n2", "n1"}) {
    pass(50s);
    EXPECT_EQ(sent<end_job>().size(), 0u) << n;
    h_->on(n, prepared{id_, {}}, now_, out_);
  }
  pass(59s);
  EXPECT_EQ(sent<end_job>().size(), 0u);
  pass(2s);
  EXPECT_EQ(sent<end_job>().size(), 3u) << "n3 was not ready within 60 s of the others";
}

class member_slow : public testing::Test {
 protected:
  void prepares(const std::string& self, const std::vector<std::string>& nodes) {
    m_.emplace(self, "n1");
    prepare p{9, {}, "h", {}};
    for (const auto& n : nodes) p.places.push_back({n, "x:1", 1});
    m_->on(p, now_, out_);
    m_->on_made(9, {}, out_);
  }
  void pass(std::chrono::milliseconds time) {
    for (; time > 0ms; time -= 100ms) m_->on_tick(now_ += 100ms, out_);
  }
  std::vector<prepared> answers() const {
    std::vector<prepared> v;
    for (const auto& o : out_)
      if (const auto* p = std::get_if<to_peer>(&o))
        if (const auto* a = std::get_if<prepared>(&p->what)) v.push_back(*a);
    return v;
  }
  std::optional<member> m_;
  member_orders out_;
  instant now_ = instant{} + 1000s;
};

TEST_F(member_slow, a_mesh_in_which_one_peer_after_the_other_connects_is_complete_in_the_end) {
  prepares("n2", {"n1", "n2", "n3", "n4"});
  for (const char* n : {"n1", "n3", "n4"}) {
    pass(9s);
    EXPECT_TRUE(answers().empty()) << n;
    m_->on_data_up(n, 1, out_);
  }
  ASSERT_EQ(answers().size(), 1u);
  EXPECT_EQ(answers()[0].error, "");
}

TEST_F(member_slow, a_mesh_without_a_new_connection_for_ten_seconds_is_an_error) {
  prepares("n2", {"n1", "n2", "n3"});
  pass(9s);
  m_->on_data_up("n1", 1, out_);
  pass(10s);
  EXPECT_TRUE(answers().empty());
  m_->on_data_up("n1", 1, out_);  // no new one
  pass(200ms);
  ASSERT_EQ(answers().size(), 1u);
  EXPECT_EQ(answers()[0].peer, "n3");
}

TEST_F(member_slow, every_node_dials_the_peers_behind_itself_first) {
  prepares("n2", {"n5", "n4", "n2", "n3", "n1", "n6"});
  std::vector<std::string> dials;
  for (const auto& o : out_)
    if (const auto* c = std::get_if<connect_data>(&o)) dials.push_back(c->peer);
  EXPECT_EQ(dials, (std::vector<std::string>{"n3", "n6", "n5", "n4"}));
}

}  // namespace
}  // namespace troupe::control
