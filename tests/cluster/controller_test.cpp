// The cluster controller as a state machine, without a cluster: the test sets the time and sends
// the messages of the other nodes.
#include <gtest/gtest.h>

#include "runtime/cluster/controller/cluster_controller.hpp"
#include "runtime/cluster/controller/member.hpp"
#include "runtime/job/plugin_abi.hpp"
#include "tests/cluster/controller_orders.hpp"
#include "tests/error_text.hpp"

namespace troupe::control {
namespace {

using namespace std::chrono_literals;

class controller : public testing::Test {
 protected:
  controller() {
    cluster_.name = "lab";
    for (const char* n : {"n1", "n2", "n3"}) {
      node_spec s;
      s.name = n;
      s.address = "127.0.0.1:1";
      cluster_.nodes.push_back(s);
    }
    h_.emplace(cluster_, "n1", std::uint16_t{7});
  }
  void join_all() {
    for (const char* n : {"n1", "n2", "n3"}) join_one(n);
  }
  void join_one(const std::string& n, const std::string& numerics = "same") {
    h_->on(n, join{"127.0.0.1:2", numerics, protocol, abi_version, 1}, now_, out_);
  }
  template <class M>
  std::vector<std::pair<std::string, M>> sent() {
    return sent_in<M>(out_);
  }
  template <class O>
  std::size_t ordered() const {
    return ordered_in<O>(out_).size();
  }
  std::uint32_t submit_one(std::vector<std::string> nodes) {
    out_.clear();
    h_->on("client.1", submit{{"job.toml", "text", {}}, true, 5}, now_, out_);
    const auto id = std::get<check_text>(out_.at(0)).job;
    checked c;
    c.name = "tiny";
    c.plan_hash = "h";
    c.nodes = std::move(nodes);
    h_->on_checked(id, c, now_, out_);
    return id;
  }
  std::uint32_t run_one(const std::vector<std::string>& nodes) {
    const auto id = submit_one(nodes);
    for (const auto& n : nodes) h_->on(n, prepared{id, {}}, now_, out_);
    return id;
  }
  void end_all(std::uint32_t id, const std::vector<std::string>& nodes) {
    for (const auto& n : nodes) h_->on(n, ended{id, 100}, now_, out_);
  }
  std::vector<said> announced() {
    std::vector<said> v;
    for (auto& [to, m] : sent<said>()) v.push_back(m);
    return v;
  }

  cluster_spec cluster_;
  std::optional<cluster_controller> h_;
  orders out_;
  instant now_ = instant{} + 1000s;
};

TEST_F(controller, a_job_is_prepared_on_all_nodes_then_begins_then_ends_on_all_nodes) {
  join_all();
  const auto id = submit_one({"n1", "n3"});
  EXPECT_EQ(sent<submitted>().at(0).second.job, id);
  EXPECT_EQ(sent<prepare>().size(), 2u);
  EXPECT_EQ(ordered<begin_job>(), 0u);
  h_->on("n1", prepared{id, {}}, now_, out_);
  EXPECT_EQ(ordered<begin_job>(), 0u);
  h_->on("n3", prepared{id, {}}, now_, out_);
  EXPECT_EQ(ordered<begin_job>(), 1u);
  h_->on_event({id, {1, step_event{.loss = 2.0}}}, now_, out_);
  h_->on_store_begun(id);
  h_->on_event({id, {1, done_event{}}}, now_, out_);
  EXPECT_EQ(sent<end_job>().size(), 0u) << "the weights are still being written";
  h_->on_stored({id, kept_kind::weights, "/w", "abc", {}}, now_, out_);
  EXPECT_EQ(sent<end_job>().size(), 2u);
  EXPECT_EQ(announced().size(), 1u) << "the done event waits for all nodes";
  end_all(id, {"n1", "n3"});
  const auto all = announced();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[1].kind, "done");
  EXPECT_EQ(all[1].texts.at(0), (std::pair<std::string, std::string>{"weights_sha256", "abc"}));
  EXPECT_EQ(all[1].values.back(), (std::pair<std::string, double>{"tcp_bytes", 200}));
  EXPECT_EQ(h_->weights_of(id), "/w");
  EXPECT_EQ(h_->active(), 0u);
}

TEST_F(controller, a_job_whose_nodes_have_ended_is_over_when_its_last_file_is_stored) {
  join_all();
  const auto id = run_one({"n1"});
  h_->on_event({id, {1, done_event{}}}, now_, out_);
  h_->on_store_begun(id);
  end_all(id, {"n1"});
  EXPECT_EQ(h_->active(), id);
  h_->on_stored({id, kept_kind::weights, "/w", "abc", {}}, now_, out_);
  EXPECT_EQ(h_->active(), 0u);
  EXPECT_EQ(announced().back().kind, "done");
}

TEST_F(controller, an_alert_of_the_check_is_told_before_the_first_step) {
  join_all();
  out_.clear();
  h_->on("client.1", submit{{"job.toml", "text", {}}, true, 5}, now_, out_);
  const auto id = std::get<check_text>(out_.at(0)).job;
  checked c;
  c.name = "tiny";
  c.nodes = {"n1"};
  c.alert = "no checkpoint was found";
  h_->on_checked(id, c, now_, out_);
  const auto all = announced();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].kind, "alert");
  EXPECT_EQ(all[0].step, 0u);
}

TEST_F(controller, a_queued_job_is_in_the_journal_with_its_owner) {
  join_all();
  out_.clear();
  h_->on("client.alice.1", submit{{"job.toml", "text", {}}, true, 5}, now_, out_);
  const auto check = std::get<check_text>(out_.at(0));
  EXPECT_FALSE(check.owner.empty());
  checked c;
  c.name = "tiny";
  c.nodes = {"n1"};
  h_->on_checked(check.job, c, now_, out_);
  std::string lines;
  for (const auto& l : ordered_in<journal_line>(out_)) lines += l.line;
  const auto kept = read_journal(lines).jobs;
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].owner, check.owner);
}

// The daemon is killed after it has written to the journal that the job is over, and before
// followers are notified.
TEST_F(controller, a_restarted_daemon_reports_how_a_job_ended) {
  join_all();
  std::string lines;
  const auto note = [&] {
    for (const auto& l : ordered_in<journal_line>(out_)) lines += l.line;
  };
  const auto good = run_one({"n1"});
  note();
  out_.clear();
  h_->on_store_begun(good);
  h_->on_event({good, {9, done_event{}}}, now_, out_);
  h_->on_stored({good, kept_kind::weights, "/w", "abc", {}}, now_, out_);
  end_all(good, {"n1"});
  const auto followed_event = announced();
  note();
  const auto bad = run_one({"n1", "n2"});
  h_->on_peer_down("n2", "gone", now_, out_);
  end_all(bad, {"n1"});
  note();
  cluster_controller next(cluster_, "n1", std::uint16_t{8});
  out_.clear();
  next.restore(read_journal(lines), now_, out_);
  next.on("client.2", follow{number_of(good)}, now_, out_);
  ASSERT_EQ(sent<submitted>().size(), 1u);
  EXPECT_TRUE(sent<submitted>()[0].second.messages.empty());
  const auto again = announced();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].kind, "done");
  EXPECT_EQ(again[0].step, 9u);
  EXPECT_EQ(again[0].texts, followed_event.back().texts);
  EXPECT_EQ(again[0].values, followed_event.back().values);
  EXPECT_EQ(next.weights_of(sent<submitted>()[0].second.job), "/w");
  out_.clear();
  next.on("client.2", follow{number_of(bad)}, now_, out_);
  ASSERT_EQ(announced().size(), 1u);
  EXPECT_EQ(announced()[0].kind, "error");
  EXPECT_EQ(announced()[0].text, "node n2 is lost: gone");
  repl_view v;
  next.fill(v, now_);
  ASSERT_EQ(v.jobs.size(), 2u);
  EXPECT_EQ(v.jobs[0].state, job_state::done);
  EXPECT_EQ(v.jobs[0].weights_sha256, "abc");
  EXPECT_EQ(v.jobs[1].state, job_state::failed);
  EXPECT_EQ(v.jobs[1].message, "node n2 is lost: gone");
}

TEST_F(controller, a_node_failure_fails_the_job_and_the_next_job_begins) {
  join_all();
  const auto first = run_one({"n1", "n2"});
  const auto second = submit_one({"n1"});
  EXPECT_EQ(sent<prepare>().size(), 0u) << "one job at a time";
  out_.clear();
  h_->on_peer_down("n2", "gone", now_, out_);
  EXPECT_EQ(sent<end_job>().size(), 1u) << "nothing is sent to the failed node";
  end_all(first, {"n1"});
  ASSERT_EQ(announced().size(), 1u);
  EXPECT_EQ(announced()[0].kind, "error");
  EXPECT_EQ(announced()[0].text, "node n2 is lost: gone");
  EXPECT_EQ(sent<prepare>().at(0).second.job, second);
}

TEST_F(controller, every_wait_has_a_deadline) {
  join_one("n1");
  const auto missing = submit_one({"n1", "n2"});
  now_ += 9s;
  h_->on_tick(now_, out_);
  ASSERT_EQ(announced().size(), 1u);
  EXPECT_NE(announced()[0].text.find("n2"), std::string::npos);
  join_all();
  const auto slow = submit_one({"n1", "n2"});
  EXPECT_NE(slow, missing);
  now_ += 61s;
  h_->on_tick(now_, out_);
  EXPECT_EQ(sent<end_job>().size(), 2u);
  EXPECT_EQ(announced().size(), 0u);
  now_ += 6s;  // no node answers `ended`
  h_->on_tick(now_, out_);
  ASSERT_EQ(announced().size(), 1u);
  EXPECT_EQ(announced()[0].kind, "error");
  const auto stuck = run_one({"n1"});
  now_ += 121s;
  h_->on_tick(now_, out_);
  end_all(stuck, {"n1"});
  EXPECT_NE(announced().back().text.find("no role handled a message"), std::string::npos);
}

TEST_F(controller, nodes_with_different_numerics_are_refused_by_name) {
  join_one("n1");
  join_one("n2", "other");
  submit_one({"n1", "n2"});
  ASSERT_EQ(announced().size(), 1u);
  EXPECT_NE(announced()[0].text.find("do not compute the same numbers"), std::string::npos);
  EXPECT_EQ(sent<prepare>().size(), 0u);
}

TEST_F(controller, an_unknown_node_and_another_build_cannot_join) {
  h_->on("n9", join{"a", "b", protocol, abi_version, 1}, now_, out_);
  h_->on("n2", join{"a", "b", protocol, abi_version + 1, 1}, now_, out_);
  const auto answers = sent<joined>();
  ASSERT_EQ(answers.size(), 2u);
  for (const auto& [to, a] : answers) EXPECT_FALSE(a.refusal.empty()) << to;
}

TEST_F(controller, a_checkpoint_is_reported_once_it_is_on_disk) {
  join_all();
  const auto id = run_one({"n1"});
  out_.clear();
  h_->on_store_begun(id);
  h_->on_event({id, {4, checkpoint_event{}}}, now_, out_);
  h_->on_event({id, {5, step_event{}}}, now_, out_);
  EXPECT_EQ(announced().size(), 0u);
  h_->on_stored({id, kept_kind::checkpoint, "/c", {}, {}}, now_, out_);
  ASSERT_EQ(announced().size(), 2u);
  EXPECT_EQ(announced()[0].texts.at(0).second, "/c");
  out_.clear();
  h_->on_store_begun(id);
  h_->on_event({id, {6, checkpoint_event{}}}, now_, out_);
  h_->on_stored({id, kept_kind::checkpoint, {}, {}, "no space left"}, now_, out_);
  EXPECT_EQ(announced().at(0).kind, "checkpoint_lost") << "training continues";
}

TEST_F(controller, a_job_is_crowded_while_two_checkpoints_wait_for_the_disk) {
  join_all();
  const auto id = run_one({"n1"});
  EXPECT_FALSE(h_->crowded(id));
  h_->on_store_begun(id);
  h_->on_store_begun(id);
  EXPECT_TRUE(h_->crowded(id));
  h_->on_stored({id, kept_kind::checkpoint, "/a", {}, {}}, now_, out_);
  EXPECT_FALSE(h_->crowded(id));
  h_->on_store_begun(id);
  (void)h_->tell(0, {stop_command{}}, now_, out_);
  EXPECT_FALSE(h_->crowded(id)) << "the last checkpoint of a stopping job is always stored";
}

// Failures to store are part of a job's last event, so that a client that waits for the end does
// not take the job for stored.
TEST_F(controller, the_done_event_of_a_stopped_job_lists_what_could_not_be_stored) {
  join_all();
  const auto id = run_one({"n1"});
  EXPECT_EQ(test::error_text(h_->tell(0, {stop_command{}}, now_, out_)), "");
  h_->on_store_begun(id);
  h_->on_event({id, {4, checkpoint_event{}}}, now_, out_);
  h_->on_store_begun(id);
  h_->on_stored({id, kept_kind::checkpoint, "/tmp/c", {}, "/c: no space left; it is in /tmp/c instead"}, now_, out_);
  h_->on_event({id, {4, done_event{.how = how_ended::stopped}}}, now_, out_);
  h_->on_stored({id, kept_kind::weights, "/tmp/w", "abc", "/w: no space left; it is in /tmp/w instead"}, now_, out_);
  end_all(id, {"n1"});
  const auto last = announced().back();
  ASSERT_EQ(last.kind, "done");
  std::string alerts;
  for (const auto& [key, text] : last.texts) alerts += key == "alert" ? text + "\n" : "";
  EXPECT_NE(alerts.find("/c: no space left"), std::string::npos) << alerts;
  EXPECT_NE(alerts.find("/w: no space left"), std::string::npos) << alerts;
  EXPECT_EQ(h_->weights_of(id), "/tmp/w") << "clients fetch the weights from the second place";
}

TEST_F(controller, a_slow_client_misses_only_step_events) {
  join_all();
  const auto id = run_one({"n1"});
  out_.clear();
  h_->slow("client.1", true);
  h_->on_event({id, {1, step_event{}}}, now_, out_);
  h_->on_event({id, {1, eval_event{}}}, now_, out_);
  ASSERT_EQ(announced().size(), 1u);
  EXPECT_EQ(announced()[0].kind, "eval");
}

TEST_F(controller, draining_preempts_the_running_job_and_keeps_the_queue_for_a_restart) {
  join_all();
  const auto id = run_one({"n1"});
  submit_one({"n1"});
  out_.clear();
  h_->drain(now_, out_);
  EXPECT_EQ(ordered<tell_job>(), 1u);
  EXPECT_TRUE(announced().empty()) << "the waiting job stays in the queue";
  EXPECT_FALSE(h_->drained());
  h_->on_event({id, {3, checkpoint_event{}}}, now_, out_);
  h_->on_event({id, {3, done_event{.how = how_ended::stopped}}}, now_, out_);
  end_all(id, {"n1"});
  EXPECT_TRUE(h_->drained());
  EXPECT_EQ(announced().back().kind, "preempted");
  EXPECT_EQ(announced().back().text, "n1 shuts down; the job continues when it runs again");
  EXPECT_EQ(ordered<journal_line>(), 0u) << "the journal still contains both jobs";
  out_.clear();
  h_->on("client.2", submit{{"f", "t", {}}, true, 9}, now_, out_);
  EXPECT_EQ(sent<submitted>().at(0).second.job, 0u);
}

TEST_F(controller, a_late_follower_receives_the_history_with_the_end_last) {
  join_all();
  const auto id = run_one({"n1"});
  for (std::uint64_t s = 1; s <= 3; ++s) h_->on_event({id, {s, step_event{}}}, now_, out_);
  h_->on_event({id, {3, done_event{}}}, now_, out_);
  end_all(id, {"n1"});
  out_.clear();
  h_->on("client.9", follow{number_of(id)}, now_, out_);
  ASSERT_EQ(announced().size(), 4u);
  EXPECT_EQ(announced().back().kind, "done");
}

// --- the member

TEST(control_member, a_member_is_prepared_when_its_roles_exist_and_all_peers_are_connected) {
  member m("n2", "n1");
  member_orders out;
  const instant now{};
  m.introduce({"a", "b", 1, 1, 1});
  m.on_coordinator_up(out);
  m.on(joined{}, now, out);
  EXPECT_TRUE(m.joined());
  m.on_data_up("n3", 4, out);
  out.clear();
  m.on(prepare{9, {}, "h", {{"n1", "x:1", 1}, {"n2", "x:2", 1}, {"n3", "x:3", 5}}}, now, out);
  std::vector<std::string> dials;
  for (const auto& o : out)
    if (const auto* c = std::get_if<connect_data>(&o)) dials.push_back(c->peer);
  EXPECT_EQ(dials, std::vector<std::string>{"n3"}) << "the connection to n3 is of an old incarnation, and n1 dials this node";
  const auto answers = [&] {
    std::vector<prepared> v;
    for (const auto& o : out)
      if (const auto* p = std::get_if<to_peer>(&o))
        if (const auto* a = std::get_if<prepared>(&p->what)) v.push_back(*a);
    return v;
  };
  m.on_made(9, {}, out);
  m.on_data_up("n3", 5, out);
  EXPECT_TRUE(answers().empty());
  m.on_data_up("n1", 1, out);
  ASSERT_EQ(answers().size(), 1u);
  EXPECT_EQ(answers()[0].error, "");
  out.clear();
  m.on_coordinator_down("gone", out);
  EXPECT_TRUE(std::any_of(out.begin(), out.end(), [](const auto& o) { return std::holds_alternative<end_roles>(o); }));
  EXPECT_FALSE(m.idle());
  m.on_gone(9, 0, now, out);
  EXPECT_TRUE(m.idle());
}

// n3 was restarted. Its old connection ends after the plan with n3's new incarnation has arrived.
TEST(control_member, the_end_of_a_peers_old_connection_does_not_fail_the_new_dial) {
  member m("n2", "n1");
  member_orders out;
  const instant now{};
  m.on_data_up("n1", 1, out);
  m.on_data_up("n3", 4, out);
  m.on(prepare{9, {}, "h", {{"n1", "x:1", 2}, {"n2", "x:2", 1}, {"n3", "x:3", 5}}}, now, out);
  m.on_made(9, {}, out);
  out.clear();
  m.on_data_down("n1", "replaced", out);
  EXPECT_TRUE(out.empty()) << "n1 dials this node";
  m.on_data_down("n3", "closed", out);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(std::get<connect_data>(out[0]).peer, "n3") << "the first dial had no effect while the old connection was up";
  out.clear();
  m.on_data_up("n1", 2, out);
  m.on_data_down("n3", "connect_deadline", out);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(std::get<prepared>(std::get<to_peer>(out[0]).what).error, "no data connection to n3: connect_deadline");
}

TEST(control_member, an_incomplete_mesh_is_an_error_naming_the_peer_after_ten_seconds) {
  member m("n2", "n1");
  member_orders out;
  instant now{};
  m.on(prepare{9, {}, "h", {{"n2", "x:2", 1}, {"n3", "x:3", 5}}}, now, out);
  m.on_made(9, {}, out);
  out.clear();
  m.on_tick(now + 9s, out);
  EXPECT_TRUE(out.empty());
  m.on_tick(now + 11s, out);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_NE(std::get<prepared>(std::get<to_peer>(out[0]).what).error.find("n3"), std::string::npos);
}

}  // namespace
}  // namespace troupe::control
