// Injected faults in the cluster controller and the member: which node is notified, and when a
// fault begins and ends.
#include <gtest/gtest.h>

#include "runtime/cluster/controller/cluster_controller.hpp"
#include "runtime/cluster/controller/member.hpp"
#include "runtime/job/plugin_abi.hpp"
#include "tests/cluster/controller_orders.hpp"
#include "tests/error_text.hpp"

namespace troupe::control {
namespace {

using namespace std::chrono_literals;

class controller_inject : public testing::Test {
 protected:
  controller_inject() {
    for (const char* n : {"n1", "n2", "n3"}) {
      node_spec s;
      s.name = n;
      s.address = "127.0.0.1:1";
      cluster_.nodes.push_back(s);
    }
    h_.emplace(cluster_, "n1", std::uint16_t{7});
    h_->allow_injections();
    for (const char* n : {"n1", "n2"}) h_->on(n, join{"127.0.0.1:2", "same", protocol, abi_version, 1}, now_, out_);
  }
  void run_a_job() {
    h_->on("client.1", submit{{"job.toml", "text", {}}, true, 5}, now_, out_);
    const auto id = ordered_in<check_text>(out_).at(0).job;
    checked c;
    c.name = "tiny", c.plan_hash = "h", c.nodes = {"n1", "n2"};
    h_->on_checked(id, c, now_, out_);
    for (const char* n : {"n1", "n2"}) h_->on(n, prepared{id, {}}, now_, out_);
  }
  std::string tell(const person& who, const injection& i) {
    out_.clear();
    return test::error_text(h_->inject(who, i, fault_lasts(i.what) ? "noon" : "", now_, out_));
  }

  const person root_{"root", certificate_role::admin};
  cluster_spec cluster_;
  std::optional<cluster_controller> h_;
  orders out_;
  instant now_ = instant{} + 1000s;
};

TEST_F(controller_inject, followers_are_notified_before_the_node_that_gets_the_fault) {
  run_a_job();
  EXPECT_EQ(tell(root_, {fault_kind::delay, "n2", 8s, 50ms}), "");
  const auto sent = sent_in<inject>(out_);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].first, "n2");
  EXPECT_EQ(sent[0].second.what, static_cast<std::uint8_t>(fault_kind::delay));
  EXPECT_EQ(sent[0].second.lasts_ms, 8000u);
  EXPECT_EQ(sent[0].second.by_ms, 50u);
  EXPECT_EQ(sent[0].second.who, "root");
  EXPECT_EQ(sent[0].second.until, "noon");
  const auto followed_event = sent_in<said>(out_);
  ASSERT_EQ(followed_event.size(), 1u);
  EXPECT_EQ(followed_event[0].first, "client.1");
  EXPECT_EQ(followed_event[0].second.kind, "fault_injected");
  EXPECT_EQ(followed_event[0].second.text, "root injects at n2: delay by 50 ms for 8 s, until noon");
  EXPECT_TRUE(std::holds_alternative<to_peer>(out_.back()) && std::get<to_peer>(out_.back()).peer == "n2")
      << "the node is notified last";
  ASSERT_EQ(ordered_in<log_line>(out_).size(), 1u);
}

TEST_F(controller_inject, a_fault_at_the_coordinator_node_needs_no_running_job) {
  EXPECT_EQ(tell(root_, {fault_kind::kill, "n1", 0s, 0ms}), "");
  EXPECT_EQ(sent_in<inject>(out_).size(), 1u);
  EXPECT_TRUE(sent_in<inject>(out_)[0].second.until.empty()) << "a kill has no end time";
}

TEST_F(controller_inject, a_refused_injection_sends_no_message) {
  run_a_job();
  const injection sound{fault_kind::stop, "n2", 8s, 0ms};
  for (const auto role : {certificate_role::submit, certificate_role::watch, certificate_role::exchange, certificate_role::node})
    EXPECT_NE(tell({"client", role}, sound).find("admin may"), std::string::npos) << "even if the operator owns the job";
  EXPECT_TRUE(out_.empty());
  EXPECT_NE(tell(root_, {fault_kind::stop, "n9", 8s, 0ms}).find("there is no node 'n9'"), std::string::npos);
  EXPECT_EQ(tell(root_, {fault_kind::stop, "n3", 8s, 0ms}), "inject: node n3 is not up");
  EXPECT_NE(tell(root_, {fault_kind::stop, "n2", 0s, 0ms}).find("1 ms to 10 min"), std::string::npos);
  EXPECT_TRUE(out_.empty());
  h_.emplace(cluster_, "n1", std::uint16_t{7});
  EXPECT_NE(tell(root_, sound).find("[cluster] inject = true"), std::string::npos);
  EXPECT_TRUE(out_.empty());
}

class member_inject : public testing::Test {
 protected:
  member_inject() { m_->allow_injections(); }
  std::string all() {
    std::string text;
    for (const auto& o : std::exchange(out_, {})) {
      if (const auto* l = std::get_if<log_line>(&o)) text += l->text + "\n";
      if (const auto* s = std::get_if<suffer>(&o)) text += "[" + text_of(s->what) + "]\n";
    }
    return text;
  }
  std::string at(std::chrono::milliseconds t) {
    m_->on_tick(instant{} + t, out_);
    return all();
  }
  std::optional<member> m_{std::in_place, "n2", "n1"};
  member_orders out_;
};

TEST_F(member_inject, a_fault_begins_after_its_log_line_is_written_and_ends_in_time) {
  m_->on(inject{static_cast<std::uint8_t>(fault_kind::drop), 2000, 0, "root", "noon"}, instant{}, out_);
  EXPECT_EQ(all(), "injected by root: drop for 2 s, until noon\n");
  EXPECT_EQ(at(100ms), "");
  EXPECT_EQ(at(300ms), "[drop for 2 s]\nthe injected drop begins\n");
  EXPECT_EQ(at(2200ms), "") << "the duration counts from the begin";
  EXPECT_EQ(at(2300ms), "the injected drop is over\n");
  EXPECT_EQ(at(9000ms), "");
}

TEST_F(member_inject, several_faults_run_at_the_same_time) {
  m_->on(inject{static_cast<std::uint8_t>(fault_kind::delay), 1000, 50, "root", {}}, instant{}, out_);
  m_->on(inject{static_cast<std::uint8_t>(fault_kind::slow_disk), 3000, 200, "root", {}}, instant{}, out_);
  EXPECT_EQ(all(), "injected by root: delay by 50 ms for 1 s\ninjected by root: slow-disk by 200 ms for 3 s\n");
  EXPECT_EQ(at(200ms),
            "[delay by 50 ms for 1 s]\nthe injected delay begins\n[slow-disk by 200 ms for 3 s]\nthe injected slow-disk begins\n");
  EXPECT_EQ(at(1200ms), "the injected delay is over\n");
  EXPECT_EQ(at(3200ms), "the injected slow-disk is over\n");
}

TEST_F(member_inject, invalid_injections_of_a_coordinator_are_refused) {
  for (const auto& m : {inject{5, 1000, 0, "root", {}}, inject{255, 1000, 0, "root", {}}, inject{1, 0, 0, "root", {}},
                        inject{1, ~0ull, 0, "root", {}}, inject{3, 1000, ~0ull, "root", {}}, inject{3, 1000, 0, "root", {}}}) {
    m_->on(m, instant{}, out_);
    EXPECT_NE(all().find("root cannot inject here"), std::string::npos);
  }
  EXPECT_EQ(at(5s), "");
  for (int i = 0; i < 1000; ++i) m_->on(inject{2, 1000, 0, "root", {}}, instant{}, out_);
  EXPECT_NE(all().find("64 faults are active already"), std::string::npos);
}

TEST_F(member_inject, a_node_refuses_faults_that_its_own_cluster_file_does_not_allow) {
  m_.emplace("n2", "n1");
  m_->on(inject{0, 0, 0, "root", {}}, instant{}, out_);
  EXPECT_NE(all().find("the cluster file of n2 does not allow it"), std::string::npos);
  EXPECT_EQ(at(5s), "");
}

}  // namespace
}  // namespace troupe::control
