// Tests that `waits` finds what holds up the others: a slow worker, a loader that does not return,
// a cut connection.
#include "actors/repl/waits.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "actors/repl/repl.hpp"
#include "actors/repl/tables.hpp"
#include "tests/actors/repl_fake.hpp"

namespace troupe {
namespace {

// A job on two nodes: two workers with three stages, a shard on each node.
class repl_waits_test : public testing::Test {
 protected:
  repl_waits_test() {
    auto about = std::make_shared<repl_about>(*backend_.v.jobs[1].about);
    about->layers = {layer("conv1", {"data"}), layer("relu1", {"conv1"}), layer("ip", {"relu1"}), layer("loss", {"ip", "label"})};
    backend_.v.jobs[1].about = about;
    backend_.v.roles.clear();
    add("n1", "coordinator");
    for (const std::string w : {"worker0", "worker1"}) {
      const auto* node = w == "worker0" ? "n1" : "n2";
      for (const auto* part : {"/loader", "/conv1+relu1", "/ip", "/loss", ""}) add(node, w + part);
    }
    add("n1", "shard0");
    add("n2", "shard1");
  }
  static repl_layer layer(const std::string& name, std::vector<std::string> inputs) {
    repl_layer l;
    l.name = name;
    l.inputs = std::move(inputs);
    return l;
  }
  void add(const std::string& node, const std::string& name) {
    repl_role r;
    r.node = node;
    r.what.job = 2;
    r.what.name = name;
    r.what.status.step = 12;
    backend_.v.roles.push_back(r);
  }
  std::size_t at(const std::string& name) const {
    const auto& list = backend_.v.roles;
    return static_cast<std::size_t>(std::find_if(list.begin(), list.end(), [&](const auto& r) { return r.what.name == name; }) -
                                    list.begin());
  }
  void waits(const std::string& name, wait_kind kind, const std::string& what, double seconds = 5) {
    auto& r = backend_.v.roles.at(at(name)).what;
    r.status.waits = kind;
    r.status.waits_for = what;
    r.age_seconds = seconds;
  }
  void computes(const std::string& name, const std::string& task, double seconds) {
    backend_.v.roles.at(at(name)).what.task = {task, 7, true, 12, 3, seconds};
  }
  // All of worker `w` and the shards wait, as after a step that another worker has not finished.
  void worker_has_finished(const std::string& w) {
    waits(w + "/loader", wait_kind::credit, "a free sub-solver of the first stage");
    waits(w + "/conv1+relu1", wait_kind::weights, "weights of version 13");
    waits(w + "/ip", wait_kind::weights, "weights of version 13");
    waits(w + "/loss", wait_kind::inputs, "1 inputs of a packet of step 13");
    waits(w, wait_kind::weights, "weights of version 13");
    for (const char* s : {"shard0", "shard1"}) waits(s, wait_kind::gradients, "gradients of step 12");
    waits("coordinator", wait_kind::answers, "losses of step 12");
  }
  std::vector<std::string> names(const std::vector<std::size_t>& roles) const {
    std::vector<std::string> all;
    for (auto i : roles) all.push_back(backend_.v.roles[i].what.name);
    return all;
  }
  std::vector<wait_root> roots() const { return wait_roots(backend_.v); }
  fake_backend backend_;
};

TEST_F(repl_waits_test, a_slow_worker_is_the_root_of_all_waits) {
  worker_has_finished("worker0");
  computes("worker1/ip", "backward", 2.5);
  waits("worker1/conv1+relu1", wait_kind::gradients, "1 gradients of step 12", 2);
  waits("worker1/loader", wait_kind::credit, "a free sub-solver of the first stage", 3);
  const auto all = roots();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(names({all[0].role}).front(), "worker1/ip");
  EXPECT_EQ(all[0].what, wait_root::kind::task);
  EXPECT_EQ(all[0].text, "computes: backward of packet 3 of step 12, for 2.5 s");
  EXPECT_EQ(all[0].held_up.size(), 10u) << testing::PrintToString(names(all[0].held_up));
  EXPECT_EQ(all.size(), 1u) << "one root explains all waits";
  EXPECT_EQ(names(all[0].chain).back(), "worker1/ip");
  EXPECT_GT(all[0].chain.size(), 2u);
}

// A node that runs only from time to time: its roles publish nothing.
TEST_F(repl_waits_test, a_worker_that_shards_name_is_the_root_when_its_node_is_silent) {
  worker_has_finished("worker0");
  for (const char* s : {"shard0", "shard1"}) waits(s, wait_kind::gradients, "gradients of step 12 from worker1", 0.6);
  for (const char* r : {"worker1", "worker1/ip", "worker1/loss", "worker1/conv1+relu1", "worker1/loader"})
    backend_.v.roles.at(at(r)).what.age_seconds = 0.6;
  for (auto& r : backend_.v.roles) r.what.status.step = r.what.name == "worker0" ? 11 : 12;  // an older publication
  const auto all = roots();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(names({all[0].role}).front().substr(0, 7), "worker1") << all[0].text;
  EXPECT_GE(all[0].held_up.size(), 6U);
}

// The last report of a cut node shows its roles as they were then.
TEST_F(repl_waits_test, a_node_without_reports_is_the_root_when_shards_wait_for_its_worker) {
  worker_has_finished("worker0");
  for (const char* s : {"shard0", "shard1"}) waits(s, wait_kind::gradients, "gradients of step 12 from worker1", 2.8);
  computes("worker1/ip", "backward", 0.1);
  waits("worker1/loader", wait_kind::credit, "a free sub-solver of the first stage", 2.8);
  for (auto& n : backend_.v.nodes)
    if (n.name == "n2") n.unheard_seconds = 2.8;
  const auto all = roots();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].what, wait_root::kind::silent);
  EXPECT_EQ(all[0].nodes, std::vector<std::string>{"n2"});
  EXPECT_EQ(backend_.v.roles[all[0].chain.back()].node, "n2");
  EXPECT_EQ(names(all[0].held_up).size(), 7u) << testing::PrintToString(names(all[0].held_up));
  const auto text = repl_waits_text(false, backend_.v);
  EXPECT_EQ(text.find("root: node n2 has sent no report for 2.8 s; 7 roles wait for it\n"), 0u) << text;
}

TEST_F(repl_waits_test, a_cut_connection_is_that_to_the_node_of_the_worker_that_shards_name) {
  add("n2", "tester/loader");
  waits("tester/loader", wait_kind::grant, "a grant beyond step 0", 60);
  worker_has_finished("worker0");
  for (auto& r : backend_.v.roles) r.what.age_seconds = std::max(r.what.age_seconds, 3.0);
  for (const char* s : {"shard0", "shard1"}) waits(s, wait_kind::gradients, "gradients of step 12 from worker1", 3);
  for (const char* r : {"worker1/ip", "worker1/loss", "worker1/conv1+relu1"})
    waits(r, wait_kind::weights, "weights of version 12", 3);
  waits("worker1", wait_kind::weights, "weights of version 12", 3);
  waits("worker1/loader", wait_kind::credit, "a free sub-solver of the first stage", 3);
  const auto all = roots();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all[0].what, wait_root::kind::connection) << all[0].text;
  EXPECT_EQ((std::set<std::string>{all[0].nodes.begin(), all[0].nodes.end()}), (std::set<std::string>{"n1", "n2"}));
  for (auto i : all[0].held_up) EXPECT_NE(backend_.v.roles[i].what.name, "tester/loader");
}

TEST_F(repl_waits_test, a_layer_that_only_tests_use_holds_up_no_step) {
  auto about = std::make_shared<repl_about>(*backend_.v.jobs[1].about);
  about->layers.push_back(layer("accuracy", {"ip", "label"}));
  about->layers.back().in_train = false;
  backend_.v.jobs[1].about = about;
  for (const char* w : {"worker0/accuracy", "worker1/accuracy"}) {
    add("n1", w);
    backend_.v.roles.back().what.age_seconds = 60;
  }
  waits("worker0/loader", wait_kind::credit, "a free sub-solver of the first stage", 0.02);
  waits("worker1/conv1+relu1", wait_kind::weights, "weights of version 13", 0.02);
  EXPECT_TRUE(roots().empty()) << "a job that makes progress: " << roots().front().text;
}

TEST_F(repl_waits_test, a_loader_that_reads_for_long_is_the_root) {
  worker_has_finished("worker0");
  waits("worker1/conv1+relu1", wait_kind::inputs, "1 inputs of a packet of step 12");
  waits("worker1/ip", wait_kind::inputs, "1 inputs of a packet of step 12");
  waits("worker1/loss", wait_kind::inputs, "1 inputs of a packet of step 12");
  computes("worker1/loader", "load", 12);
  const auto all = roots();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(names({all[0].role}).front(), "worker1/loader");
  EXPECT_EQ(all[0].text, "reads data: load of packet 3 of step 12, for 12.0 s");
  const auto t = repl_session(backend_, false).run("waits").text;
  EXPECT_EQ(t.find("root: worker1/loader on n2 reads data: load of packet 3 of step 12, for 12.0 s; 11 roles wait for it\n"), 0u)
      << t;
  EXPECT_NE(t.find(" <- worker1/loader on n2\n"), std::string::npos) << t;
}

TEST_F(repl_waits_test, a_cut_connection_is_named_when_all_wait_for_each_other) {
  worker_has_finished("worker0");
  worker_has_finished("worker1");
  for (auto& r : backend_.v.roles) r.what.age_seconds = 4;
  const auto all = roots();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all[0].what, wait_root::kind::connection);
  auto nodes = all[0].nodes;
  std::sort(nodes.begin(), nodes.end());
  EXPECT_EQ(nodes, (std::vector<std::string>{"n1", "n2"}));
  EXPECT_NE(repl_session(backend_, false).run("waits").text.find("root: the connection between n"), std::string::npos);
  backend_.v.nodes[1].note = "n1 cannot reach it: counts as failed for job 2 in 3 s";
  EXPECT_EQ(repl_session(backend_, false).run("waits").text.find("root: node n2: n1 cannot reach it"), 0u);
}

TEST_F(repl_waits_test, a_paused_job_waits_for_its_user) {
  waits("coordinator", wait_kind::user, "resume");
  waits("worker0/loader", wait_kind::grant, "a grant beyond step 12");
  const auto all = roots();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].text, "is paused until `resume`");
  EXPECT_EQ(names(all[0].chain), (std::vector<std::string>{"worker0/loader", "coordinator"}));
}

TEST_F(repl_waits_test, a_failed_role_comes_before_a_long_task) {
  worker_has_finished("worker0");
  computes("worker1/ip", "forward", 30);
  waits("shard1", wait_kind::none, "nothing, it failed: bad number");
  const auto all = roots();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all[0].what, wait_root::kind::failed);
  EXPECT_EQ(names({all[0].role}).front(), "shard1");
}

TEST_F(repl_waits_test, follows_the_layers_of_the_job) {
  const auto next = [&](const std::string& name) { return names(roles_waited_for(backend_.v, at(name))); };
  waits("worker0/ip", wait_kind::inputs, "1 inputs");
  EXPECT_EQ(next("worker0/ip"), (std::vector<std::string>{"worker0/conv1+relu1"}));
  waits("worker0/loss", wait_kind::inputs, "1 inputs");
  EXPECT_EQ(next("worker0/loss"), (std::vector<std::string>{"worker0/loader", "worker0/ip"})) << "the labels come from the loader";
  waits("worker0/conv1+relu1", wait_kind::inputs, "1 inputs");
  EXPECT_EQ(next("worker0/conv1+relu1"), (std::vector<std::string>{"worker0/loader"}));
  waits("worker0/conv1+relu1", wait_kind::gradients, "1 gradients");
  EXPECT_EQ(next("worker0/conv1+relu1"), (std::vector<std::string>{"worker0/ip"}));
  waits("worker1/loader", wait_kind::credit, "a free sub-solver of the first stage");
  EXPECT_EQ(next("worker1/loader"), (std::vector<std::string>{"worker1/conv1+relu1", "worker1/loss"}));
  waits("shard0", wait_kind::gradients, "gradients of step 12");
  backend_.v.roles[at("worker0")].what.status.step = 13;
  EXPECT_EQ(next("shard0"), (std::vector<std::string>{"worker1"})) << "the one that is behind";
  const auto& about = *backend_.v.jobs[1].about;
  EXPECT_EQ(names(roles_with_layer(backend_.v, about, "relu1")),
            (std::vector<std::string>{"worker0/conv1+relu1", "worker1/conv1+relu1"}));
  backend_.v.roles[at("worker0/ip")].what.name = "worker0/conv1..ip.1";
  EXPECT_EQ(names(roles_with_layer(backend_.v, about, "relu1")).size(), 3u) << "a run of layers, part 1";
}

TEST_F(repl_waits_test, json_has_the_roots_with_their_chains) {
  worker_has_finished("worker0");
  computes("worker1/ip", "backward", 2.5);
  const auto o = nlohmann::json::parse(repl_session(backend_, true).run("waits").text);
  EXPECT_EQ(o["roots"][0]["name"], "worker1/ip");
  EXPECT_EQ(o["roots"][0]["cause"], "task");
  EXPECT_EQ(o["roots"][0]["seconds"], 2.5);
  EXPECT_EQ(o["roots"][0]["chain"].back()["name"], "worker1/ip");
  EXPECT_EQ(o["waits"][0]["seconds"], 5);
}

TEST_F(repl_waits_test, a_view_without_a_job_or_with_unknown_layers_is_no_error) {
  worker_has_finished("worker0");
  for (auto& r : backend_.v.roles) r.what.age_seconds = 5;
  backend_.v.jobs[1].about = nullptr;
  EXPECT_FALSE(roots().empty());
  backend_.v.roles.clear();
  EXPECT_TRUE(roots().empty());
}

}  // namespace
}  // namespace troupe
