// `diagnose`: simulated jobs of every mode in which a role stops to answer, and the decision what
// counts as stuck.
#include "actors/repl/diagnosis.hpp"

#include <gmock/gmock.h>

#include "runtime/cluster/view/about.hpp"
#include "runtime/job/coarse.hpp"
#include "tests/actors/embedded_support.hpp"

namespace troupe::testing_embedded {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::map<std::string, overrides>& modes() {
  static const std::map<std::string, overrides> all{
      {"bsp", {}},
      {"ssp", {R"(train.sync={mode="ssp",staleness=3})"}},
      {"downpour", {R"(train.sync={mode="downpour"})"}},
      {"hogwild", {R"(train.sync={mode="hogwild"})"}},
      {"easgd", {R"(train.sync={mode="easgd",tau=4})"}},
      {"eamsgd", {R"(train.sync={mode="eamsgd",tau=4})", R"(train.dynamics={rule="nesterov",lr=0.01,momentum=0.9})"}},
      {"group_sync", {R"(train.sync={mode="group_sync",sync_freq=4})", "topology.worker_groups=2", "topology.server_groups=2"}},
      {"sandblaster", {R"(train.sync={mode="sandblaster"})"}},
      {"gossip", {R"(train.sync={mode="gossip",every=2})"}},
  };
  return all;
}

// A simulated job whose states are collected as a node publishes them.
class watched_job {
 public:
  // A task of this role does not end once it is set.
  std::string hangs;

  explicit watched_job(const overrides& mode) {
    overrides set{"topology.workers_per_group=2", "topology.servers_per_group=2", "pipeline.packets=4",
                  "train.finish.steps=1000000"};
    set.insert(set.end(), mode.begin(), mode.end());
    const auto full = job_of(lenet_like(), set);
    job_ = make_counted(*full, full->nodes).value();  // without maths
    world_ = std::make_unique<sim::world>(config_);
    for (const auto& r : job_->plan.roles) world_->add(r.id, r.does().owns_parameters ? r.index : r.worker, make_role(job_, r.id));
    world_->measured = [this](role_id r, const task_cost&) -> std::optional<duration> {
      return !hangs.empty() && job_->plan[r].name == hangs ? duration(1h) : duration(1ms);
    };
    world_->on_span = [this](const sim::world::span& s) {
      if (s.end - s.begin > 1min) running_.try_emplace(s.who, s);
    };
    world_->on_event = [this](const event_effect& e) {
      if (e.is<error_event>()) ADD_FAILURE() << message_of(e);
    };
    envelope go;
    go.h.dst = role_id{0};
    go.body = start{};
    world_->inject(go);
    states_.resize(job_->plan.roles.size());
  }

  // Virtual time passes.
  void run(duration time) {
    const auto end = world_->now() + time;
    bool over = false;
    world_->at(end, [&] { over = true; });
    while (!over && world_->step())
      if (world_->now() - published_ >= 50ms) publish();
    publish();
  }

  repl_view view() const {
    repl_view v;
    v.node = "n1";
    v.nodes.resize(1);
    v.nodes[0].name = "n1";
    v.nodes[0].state = "up";
    repl_job j;
    j.id = 1;
    j.state = job_state::running;
    j.about = std::make_shared<const repl_about>(about_job(*job_));
    v.jobs = {j};
    for (std::size_t i = 0; i < states_.size(); ++i) {
      repl_role r;
      r.node = "n1";
      r.what.job = 1;
      r.what.id = role_id{static_cast<std::uint32_t>(i)};
      r.what.name = job_->plan.roles[i].name;
      r.what.status = states_[i].last;
      r.what.age_seconds = seconds_of(world_->now() - states_[i].since);
      if (const auto at = running_.find(r.what.id); at != running_.end())
        r.what.task = {at->second.kind, 1, false, 0, 0, seconds_of(world_->now() - at->second.begin)};
      v.roles.push_back(std::move(r));
    }
    return v;
  }
  std::vector<std::string> roles_that_compute() const {
    std::vector<std::string> found;
    for (const auto& r : job_->plan.roles)
      if (!r.name.ends_with("/accuracy") && (r.trains() || r.name == "worker1/loader")) found.push_back(r.name);
    return found;
  }

 private:
  struct state {
    role_status last;
    time_point since{};
  };
  void publish() {
    published_ = world_->now();
    for (std::size_t i = 0; i < states_.size(); ++i) {
      auto now = world_->find(role_id{static_cast<std::uint32_t>(i)})->status();
      auto& s = states_[i];
      const bool same = now.step == s.last.step && now.waits_for == s.last.waits_for && now.queued == s.last.queued &&
                        now.in_flight == s.last.in_flight && now.version == s.last.version;
      if (!same) s.since = world_->now();
      s.last = std::move(now);
    }
  }

  std::shared_ptr<prepared_job> job_;
  sim::world_config config_;
  std::unique_ptr<sim::world> world_;
  time_point published_{};
  std::vector<state> states_;
  std::map<role_id, sim::world::span> running_;
};

class diagnosis_of_mode : public testing::TestWithParam<std::string> {};

TEST_P(diagnosis_of_mode, names_the_role_that_never_answers) {
  const auto& mode = modes().at(GetParam());
  for (const auto& role : watched_job(mode).roles_that_compute()) {
    watched_job j(mode);
    j.run(500ms);
    const auto before = diagnose(j.view(), 0.02);
    EXPECT_FALSE(before.stuck()) << role << ": " << diagnosis_text(j.view(), before);
    j.hangs = role;
    j.run(5s);
    const auto v = j.view();
    const auto d = diagnose(v, 0.02);
    ASSERT_TRUE(d.stuck()) << role;
    EXPECT_EQ(v.roles[d.causes[0].root.role].what.name, role) << diagnosis_text(v, d);
    EXPECT_THAT(diagnosis_text(v, d), StartsWith("stuck: root: " + role));
  }
}

INSTANTIATE_TEST_SUITE_P(every, diagnosis_of_mode,
                         testing::Values("bsp", "ssp", "downpour", "hogwild", "easgd", "eamsgd", "group_sync", "sandblaster",
                                         "gossip"),
                         [](const auto& p) { return p.param; });

TEST(diagnosis, waits_longer_when_steps_take_long) {
  EXPECT_EQ(stuck_after(std::nullopt), 10);
  EXPECT_EQ(stuck_after(0.001), 2);
  EXPECT_EQ(stuck_after(3.0), 60);
}

TEST(diagnosis, says_that_no_job_runs_when_there_are_no_roles) {
  const repl_view v;
  const auto d = diagnose(v, {});
  EXPECT_FALSE(d.stuck());
  EXPECT_EQ(diagnosis_text(v, d), "no job runs");
}

TEST(diagnosis, names_the_job_that_has_no_roles_and_the_nodes_that_are_not_there) {
  repl_view v;
  v.nodes.resize(2);
  v.nodes[0].name = "n1", v.nodes[0].state = "up";
  v.nodes[1].name = "n2", v.nodes[1].state = "absent";
  v.jobs.resize(2);
  v.jobs[0].id = 1, v.jobs[0].state = job_state::gathering;
  v.jobs[1].id = 2, v.jobs[1].state = job_state::queued;
  EXPECT_EQ(diagnosis_text(v, diagnose(v, {})), "job 1 is gathering: it has no roles; n2 is absent");
  EXPECT_EQ(diagnosis_object(v, diagnose(v, {}))["state"], "gathering");
  v.jobs[0].state = job_state::done;
  EXPECT_EQ(diagnosis_text(v, diagnose(v, {})), "no job runs; job 2 is queued");
}

TEST(diagnosis, counts_a_silent_node_as_stuck_when_a_job_needs_it) {
  repl_view v;
  v.coordinator = "n1";
  v.nodes.resize(3);
  for (std::size_t i = 0; i < 3; ++i) v.nodes[i].name = "n" + std::to_string(i + 1), v.nodes[i].state = "up";
  v.nodes[2].state = "silent";
  v.nodes[2].note = "connection refused";
  auto d = diagnose(v, {});
  EXPECT_FALSE(d.stuck());
  EXPECT_THAT(diagnosis_text(v, d), StartsWith("node n3 does not answer; no running job uses it: connection refused\n"));
  repl_role r;
  r.node = "n3";
  r.what.name = "shard2";
  v.roles = {r};
  d = diagnose(v, {});
  EXPECT_TRUE(d.stuck());
  EXPECT_THAT(diagnosis_text(v, d), StartsWith("stuck: node n3 does not answer: connection refused\n"));
  EXPECT_EQ(diagnosis_object(v, d)["silent"][0]["needed"], true);
  v.roles.clear();
  v.nodes[2].state = "up";
  v.nodes[0].state = "silent";
  EXPECT_TRUE(diagnose(v, {}).stuck()) << "the coordinator's node is always needed";
}

}  // namespace
}  // namespace troupe::testing_embedded
