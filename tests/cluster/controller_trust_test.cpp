// Which messages the cluster controller accepts from which peers, without a cluster.
#include <gtest/gtest.h>

#include "runtime/cluster/controller/cluster_controller.hpp"
#include "runtime/job/plugin_abi.hpp"
#include "tests/cluster/controller_orders.hpp"
#include "tests/error_text.hpp"

namespace troupe::control {
namespace {

using namespace std::chrono_literals;

class controller_trust : public testing::Test {
 protected:
  controller_trust() {
    for (const char* n : {"n1", "n2", "n3"}) {
      node_spec s;
      s.name = n;
      s.address = "127.0.0.1:1";
      cluster_.nodes.push_back(s);
    }
    h_.emplace(cluster_, "n1", std::uint16_t{7});
    for (const char* n : {"n1", "n2", "n3"}) deliver(n, join{"127.0.0.1:2", "same", protocol, abi_version, 1});
    deliver("client.1", submit{{"job.toml", "text", {}}, true, 5});
    for (const auto& o : out_)
      if (const auto* c = std::get_if<check_text>(&o)) id_ = c->job;
    checked c;
    c.name = "tiny", c.plan_hash = "h", c.nodes = {"n1", "n2"};
    h_->on_checked(id_, c, now_, out_);
    for (const char* n : {"n1", "n2"}) deliver(n, prepared{id_, {}});
    out_.clear();
  }
  void deliver(const std::string& from, const message& m) { h_->on(from, m, now_, out_); }
  template <class O>
  std::vector<O> ordered() const {
    return ordered_in<O>(out_);
  }
  std::string state_of(std::uint32_t number = 1) const {
    repl_view v;
    h_->fill(v, now_);
    for (const auto& j : v.jobs)
      if (j.id == number) return text_of(j.state);
    return "none";
  }
  std::string node_state(const std::string& name) const {
    repl_view v;
    h_->fill(v, now_);
    for (const auto& n : v.nodes)
      if (n.name == name) return n.state + " " + std::to_string(n.incarnation) + " " + std::to_string(n.tcp_in);
    return "none";
  }
  std::string logged() const {
    std::string all;
    for (const auto& l : ordered<log_line>()) all += l.text + "\n";
    return all;
  }

  cluster_spec cluster_;
  std::optional<cluster_controller> h_;
  orders out_;
  instant now_ = instant{} + 1000s;
  std::uint32_t id_ = 0;
};

TEST_F(controller_trust, node_messages_from_a_client_are_ignored) {
  const auto before = node_state("n2");
  const std::vector<message> forged = {trouble{id_, "n2", "forged"},
                                       trouble{id_, "client.1", "forged"},
                                       ended{id_, 7},
                                       prepared{id_, "forged"},
                                       leaving{},
                                       report{1, 2, {}},
                                       revised{id_, 1, "bad"},
                                       swapped{id_, 1, 0, "bad"},
                                       join{"a", "b", protocol, abi_version, std::uint64_t{1} << 63}};
  for (const auto& m : forged) deliver("client.1", m);
  EXPECT_EQ(state_of(), "running");
  EXPECT_EQ(node_state("n2"), before);
  EXPECT_TRUE(ordered<to_peer>().empty());
  EXPECT_EQ(h_->unheard(), forged.size());
  deliver("client.2", trouble{id_, "n2", "forged"});
  ASSERT_EQ(ordered<log_line>().size(), 1u) << "one line per certificate, which all operators share:\n" << logged();
  EXPECT_NE(logged().find("client.1 must not send 'trouble': only nodes may send it, and this peer has a client's certificate"),
            std::string::npos)
      << logged();
  EXPECT_EQ(h_->unheard(), forged.size() + 1);
}

// Ownership of jobs, also of one that was submitted through another node.
TEST_F(controller_trust, only_its_owner_and_admin_may_command_a_job) {
  const person eve{"eve", certificate_role::watch}, root{"root", certificate_role::admin};
  EXPECT_EQ(h_->owner_of(id_), "client");
  EXPECT_NE(
      test::error_text(h_->tell({"alice", certificate_role::submit}, 0, {stop_command{}}, now_, out_)).find("job 1 is client's"),
      std::string::npos);
  EXPECT_NE(test::error_text(h_->tell(eve, 1, {stop_command{}}, now_, out_)).find("has the role watch"), std::string::npos);
  EXPECT_NE(test::error_text(h_->tell({"n2", certificate_role::node}, 1, {stop_command{}}, now_, out_)), "");
  EXPECT_EQ(test::error_text(h_->tell(eve, 1, {staleness_command{}}, now_, out_)), "") << "a query changes nothing";
  EXPECT_EQ(state_of(), "running");
  EXPECT_EQ(test::error_text(h_->tell(root, 0, {stop_command{}}, now_, out_)), "");
  EXPECT_EQ(state_of(), "stopping");
  h_->take_submission("alice", "n2", submit{{"job.toml", "text", {}}, false, 9}, now_, out_);
  deliver("client.bob.x", submit{{"job.toml", "text", {}}, false, 9});
  repl_view v;
  h_->fill(v, now_);
  std::vector<std::string> owners;
  for (const auto& j : v.jobs) owners.push_back(j.owner);
  EXPECT_EQ(owners, (std::vector<std::string>{"client", "alice", "bob"}));
}

TEST_F(controller_trust, client_messages_from_a_node_are_ignored) {
  deliver("n2", submit{{"job.toml", "text", {}}, false, 9});
  deliver("n2", follow{1});
  EXPECT_TRUE(ordered<to_peer>().empty());
  EXPECT_TRUE(ordered<check_text>().empty());
  EXPECT_EQ(h_->unheard(), 2u);
}

TEST_F(controller_trust, a_node_cannot_have_the_name_of_an_operator_session) {
  node_spec s;
  s.name = "client.n4";
  cluster_.nodes.push_back(s);
  h_.emplace(cluster_, "n1", std::uint16_t{7});
  deliver("client.n4", join{"a", "b", protocol, abi_version, 1});
  EXPECT_EQ(node_state("client.n4").rfind("absent", 0), 0u);
}

TEST_F(controller_trust, messages_of_a_node_outside_the_cluster_file_are_ignored) {
  deliver("n9", trouble{id_, "n2", "forged"});
  deliver("n9", leaving{});
  EXPECT_EQ(state_of(), "running");
  EXPECT_EQ(h_->unheard(), 2u);
  EXPECT_NE(logged().find("the cluster file of n1 has no node named n9"), std::string::npos) << logged();
}

TEST_F(controller_trust, reports_about_a_job_that_does_not_use_the_sender_are_ignored) {
  deliver("n3", trouble{id_, "n2", "lost the data connection to n2"});
  deliver("n3", trouble{id_, "n3", "mine"});
  deliver("n2", trouble{id_, "n3", "lost the data connection to n3"});
  EXPECT_EQ(state_of(), "running");
  EXPECT_EQ(h_->unheard(), 3u);
  EXPECT_NE(logged().find("n3 has no part in job 1"), std::string::npos) << logged();
  deliver("n2", trouble{id_, "n1", "lost the data connection to n1"});
  EXPECT_EQ(state_of(), "ending") << "a node that the job uses is accepted";
  EXPECT_EQ(h_->unheard(), 3u);
}

TEST_F(controller_trust, a_node_that_the_job_does_not_use_cannot_cancel_a_move) {
  (void)h_->tell(0, {drain_command{"n2"}}, now_, out_);
  checked c;
  c.name = "tiny", c.plan_hash = "h2", c.nodes = {"n1"};
  h_->on_plan_found({id_, {}, {}, c, {"bsp"}, 1}, now_, out_);
  deliver("n3", revised{id_, 1, "forged"});
  out_.clear();
  deliver("n1", revised{id_, 1, {}});
  EXPECT_EQ(ordered<tell_job>().size(), 1u) << "the move continues with the handover";
  h_->on_handover(id_, 10, now_, out_);
  deliver("n3", swapped{id_, 1, 0, "forged"});
  EXPECT_EQ(state_of(), "running");
  EXPECT_EQ(h_->unheard(), 2u);
}

TEST_F(controller_trust, a_join_must_have_the_incarnation_of_its_connection) {
  h_->on_peer_down("n2", "gone", now_, out_);
  h_->on_peer_up("n2", 5);
  out_.clear();
  deliver("n2", join{"127.0.0.1:2", "same", protocol, abi_version, std::uint64_t{1} << 63});
  EXPECT_EQ(node_state("n2").rfind("lost", 0), 0u);
  EXPECT_NE(logged().find("incarnation 9223372036854775808 differs from that of its connection, 5"), std::string::npos) << logged();
  deliver("n2", join{"127.0.0.1:2", "same", protocol, abi_version, 5});
  EXPECT_EQ(node_state("n2"), "up 5 0");
}

TEST_F(controller_trust, coordinator_messages_from_other_peers_are_ignored) {
  for (const std::string from : {"client.1", "n2"}) {
    deliver(from, end_job{id_});
    deliver(from, prepare{id_ + 1, {}, {}, {}, false, 0});
    deliver(from, said{id_, "done", "forged", 1, {}, {}});
  }
  EXPECT_EQ(state_of(), "running");
  EXPECT_EQ(h_->unheard(), 6u);
  EXPECT_EQ(ordered<log_line>().size(), 2u) << logged();
}

TEST(trust, every_message_type_has_a_name_and_an_allowed_sender) {
  const auto is = [](const message& m, const std::string& name, speaker who) { return name_of(m) == name && speaker_of(m) == who; };
  EXPECT_TRUE(is(join{}, "join", speaker::node));
  EXPECT_TRUE(is(joined{}, "joined", speaker::coordinator));
  EXPECT_TRUE(is(submit{}, "submit", speaker::client));
  EXPECT_TRUE(is(submitted{}, "submitted", speaker::coordinator));
  EXPECT_TRUE(is(prepare{}, "prepare", speaker::coordinator));
  EXPECT_TRUE(is(prepared{}, "prepared", speaker::node));
  EXPECT_TRUE(is(trouble{}, "trouble", speaker::node));
  EXPECT_TRUE(is(end_job{}, "end_job", speaker::coordinator));
  EXPECT_TRUE(is(ended{}, "ended", speaker::node));
  EXPECT_TRUE(is(leaving{}, "leaving", speaker::node));
  EXPECT_TRUE(is(report{}, "report", speaker::node));
  EXPECT_TRUE(is(said{}, "said", speaker::coordinator));
  EXPECT_TRUE(is(follow{}, "follow", speaker::client));
  EXPECT_TRUE(is(fetch{}, "fetch", speaker::client));
  EXPECT_TRUE(is(piece{}, "piece", speaker::client));
  EXPECT_TRUE(is(ask{}, "ask", speaker::asker));
  EXPECT_TRUE(is(answer{}, "answer", speaker::coordinator));
  EXPECT_TRUE(is(revise{}, "revise", speaker::coordinator));
  EXPECT_TRUE(is(revised{}, "revised", speaker::node));
  EXPECT_TRUE(is(swap{}, "swap", speaker::coordinator));
  EXPECT_TRUE(is(swapped{}, "swapped", speaker::node));
  EXPECT_TRUE(is(forget{}, "forget", speaker::coordinator));
  EXPECT_TRUE(is(inject{}, "inject", speaker::coordinator));
}

// Clients of every role and relation to the owner, with every message and command that reads a job.
TEST(trust, messages_and_commands_that_read_weights_need_the_owner) {
  const message reading[] = {fetch{7, 0}};
  const message watching[] = {follow{7}, look{}};
  for (const auto role : {certificate_role::admin, certificate_role::submit, certificate_role::exchange, certificate_role::watch})
    for (const std::string owner : {"alice", "bob", ""}) {
      const person who{"alice", role};
      const bool all = role == certificate_role::admin;
      const bool weights = all || (role == certificate_role::submit && owner == "alice");
      for (const auto& m : reading) EXPECT_EQ(check_message(who, m, owner).has_value(), weights) << text_of(role) << " " << owner;
      EXPECT_EQ(check_command(who, 7, owner, {histograms_command{}}).has_value(), weights) << text_of(role) << " " << owner;
      const bool looks = role != certificate_role::exchange;
      for (const auto& m : watching) EXPECT_EQ(check_message(who, m, owner).has_value(), looks) << text_of(role) << " " << owner;
      EXPECT_EQ(check_command(who, 7, owner, {staleness_command{}}).has_value(), looks) << text_of(role) << " " << owner;
    }
}

TEST(trust, only_the_first_violation_per_certificate_is_logged_and_all_count) {
  unheeded u;
  EXPECT_TRUE(u.note("client.1", trouble{}, "why"));
  EXPECT_FALSE(u.note("client.2", join{}, "why"));
  EXPECT_TRUE(u.note("n2", join{}, "why"));
  EXPECT_FALSE(u.note("n2", join{}, "why"));
  EXPECT_EQ(u.count(), 4u);
  std::size_t lines = 0;
  for (int i = 0; i < 1000; ++i) lines += u.note("n" + std::to_string(i), join{}, "why") ? 1 : 0;
  EXPECT_LE(lines, 256u);
}

// A node forwards the line of its client; a client itself cannot be somebody else.
TEST(trust, a_line_is_of_its_sender_unless_a_node_forwards_it_for_a_client) {
  const auto asker = [](const char* peer, certificate_role role, const char* whose, int of) {
    ask a;
    a.whose = whose;
    a.role = static_cast<std::uint8_t>(of);
    const auto who = asker_of(peer, role, a);
    return who.name + ", " + text_of(who.role);
  };
  const auto admin = static_cast<int>(certificate_role::admin), watch = static_cast<int>(certificate_role::watch);
  EXPECT_EQ(asker("n2", certificate_role::node, "bob", admin), "bob, admin");
  EXPECT_EQ(asker("n2", certificate_role::node, "bob", watch), "bob, watch");
  for (const int of : {0, int{certificate_roles}, 255}) EXPECT_EQ(asker("n2", certificate_role::node, "bob", of), "n2, node") << of;
  EXPECT_EQ(asker("n2", certificate_role::node, "", admin), "n2, node");
  EXPECT_EQ(asker("client.alice.1", certificate_role::watch, "bob", admin), "alice, watch");
}

}  // namespace
}  // namespace troupe::control
